package shell

import (
	"io"
	"sync"
)

// The line editor asks the terminal for its cursor position before each prompt and waits for the
// answer, for ever on terminals that do not answer (those of scripts and of some editors). The
// shell always ends its output with a line break, so the answer is known: the first column. These
// two wrappers answer in the terminal's place.

const (
	cursorQuery  = "\x1b[6n"
	cursorAnswer = "\x1b[1;1R"
)

// answeredInput is the terminal's input with answers inserted.
type answeredInput struct {
	in      io.Reader
	mu      sync.Mutex
	pending string
}

// Read returns a waiting answer, else what the terminal sends.
func (a *answeredInput) Read(p []byte) (int, error) {
	a.mu.Lock()
	if a.pending != "" {
		n := copy(p, a.pending)
		a.pending = a.pending[n:]
		a.mu.Unlock()
		return n, nil
	}
	a.mu.Unlock()
	return a.in.Read(p)
}

// answeringOutput is the terminal's output without the questions.
type answeringOutput struct {
	out io.Writer
	in  *answeredInput
}

// Write passes on everything except the question for the cursor.
func (a *answeringOutput) Write(p []byte) (int, error) {
	if string(p) == cursorQuery {
		a.in.mu.Lock()
		a.in.pending += cursorAnswer
		a.in.mu.Unlock()
		return len(p), nil
	}
	return a.out.Write(p)
}
