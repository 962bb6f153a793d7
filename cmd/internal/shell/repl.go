package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/ergochat/readline"

	"github.com/bglm/bglm/udf"
)

// Prompts of the interactive shell.
const (
	Prompt       = "bglm> "
	PromptFollow = " ...> "
)

// HistoryEnv names the environment variable that moves the history file; set
// but empty it switches history off.
const HistoryEnv = "BGLM_HISTORY"

// historyFile returns where the history is kept, "" for nowhere.
func historyFile() string {
	if f, ok := os.LookupEnv(HistoryEnv); ok {
		return f
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".bglm_history")
}

// REPL reads statements from the terminal until Ctrl-D or .quit. Errors are printed and do not end
// it. Ctrl-C discards the line being typed, or interrupts the running statement. Prompts go to
// terminal, so that results can be redirected.
func (s *Shell) REPL(ctx context.Context, terminal io.Writer) error {
	rl, err := s.readline(terminal)
	if err != nil {
		return err
	}
	defer rl.Close()
	if f, ok := terminal.(*os.File); ok && s.format.Terminal {
		s.screen = f
	}
	// SIGTERM ends the wait for a line, so that the terminal is restored.
	defer context.AfterFunc(ctx, func() { rl.Close() })()

	// Between two lines the terminal is in its normal state and Ctrl-C is a
	// signal; without a receiver it would end the process.
	sigs := make(chan os.Signal, 1)
	signal.Notify(sigs, os.Interrupt)
	defer signal.Stop(sigs)

	var sp Splitter
	var typed []string // lines of the statements not yet in the history
	for {
		rl.SetPrompt(Prompt)
		if sp.Pending() {
			rl.SetPrompt(PromptFollow)
		}
		line, err := rl.ReadLine()
		if ctx.Err() != nil {
			return errors.New("ended by a signal")
		}
		switch {
		case errors.Is(err, readline.ErrInterrupt):
			sp.Rest()
			typed = nil
			continue
		case errors.Is(err, io.EOF):
			fmt.Fprintln(terminal)
			return nil
		case err != nil:
			return err
		}
		if !sp.Pending() && isDot(line) {
			rl.SaveToHistory(strings.TrimSpace(line))
			err := s.interruptible(ctx, sigs, func(ctx context.Context) error { return s.Dot(ctx, line) })
			if errors.Is(err, ErrQuit) {
				return nil
			}
			s.report(err)
			continue
		}
		if strings.TrimSpace(line) != "" || sp.Pending() {
			typed = append(typed, line)
		}
		sts := sp.Feed(line + "\n")
		if !sp.Pending() {
			for _, h := range historyEntries(typed) {
				rl.SaveToHistory(h)
			}
			typed = nil
			// Blanks after the semicolon are not part of the next statement.
			sp.Rest()
		}
		s.answer(ctx, sigs, sts)
	}
}

// readline prepares the terminal and the history.
func (s *Shell) readline(terminal io.Writer) (*readline.Instance, error) {
	history := historyFile()
	if history != "" {
		// Statements may contain data: only the user can read the file.
		if f, err := os.OpenFile(history, os.O_CREATE|os.O_RDWR, 0o600); err == nil {
			f.Close()
		} else {
			fmt.Fprintf(s.errOut, "history is off: %v\n", err)
			history = ""
		}
	}
	input := &answeredInput{in: os.Stdin}
	return readline.NewFromConfig(&readline.Config{
		Prompt:                 Prompt,
		HistoryFile:            history,
		HistoryLimit:           2000,
		DisableAutoSaveHistory: true,
		HistorySearchFold:      true,
		AutoComplete:           &completer{s: s},
		InterruptPrompt:        "^C",
		EOFPrompt:              "\n",
		Stdin:                  input,
		Stdout:                 &answeringOutput{out: terminal, in: input},
		Stderr:                 s.errOut,
		Undo:                   true,
	})
}

// answer runs statements until one fails.
func (s *Shell) answer(ctx context.Context, sigs chan os.Signal, sts []Statement) {
	for _, st := range sts {
		if st.Empty() {
			continue
		}
		err := s.interruptible(ctx, sigs, func(ctx context.Context) error { return s.Exec(ctx, st.SQL()) })
		s.report(err)
		if err != nil {
			return
		}
	}
}

// Waiting says what an interrupted statement is still waiting for.
func Waiting() string {
	what := "DuckDB"
	if m := udf.Solving(); m != "" {
		what = "a step of " + m + " that cannot be cut short"
	}
	return "still waiting for " + what + "; Ctrl-C again ends the process at once"
}

func (s *Shell) report(err error) {
	if err != nil {
		fmt.Fprintf(s.errOut, "%s\n", Message(err.Error()))
	}
}

// waitFor is the delay before the shell says what holds up an interrupted statement.
const waitFor = time.Second

// interruptible runs f with a context that the next signal cancels. If f does not return, the shell
// says what it is waiting for, and from then on a signal ends the process.
func (s *Shell) interruptible(ctx context.Context, sigs <-chan os.Signal, f func(context.Context) error) error {
	select {
	case <-sigs: // pressed before the statement
	default:
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-sigs:
			cancel()
		case <-ctx.Done(): // SIGTERM
		case <-done:
			return
		}
		select {
		case <-time.After(waitFor):
		case <-done:
			return
		}
		fmt.Fprintln(s.errOut, Waiting())
		select {
		case <-sigs:
			os.Exit(130)
		case <-done:
		}
	}()
	err := f(ctx)
	close(done)
	<-gone
	cancel()
	return err
}

// historyEntries joins the lines of a statement into one entry, since the history consists of
// lines. If a line break matters (inside quotes, after a line comment) each line stays a separate
// entry.
func historyEntries(lines []string) []string {
	if len(lines) == 0 {
		return nil
	}
	var sp Splitter
	for _, l := range lines[:len(lines)-1] {
		sp.Feed(l)
		if sp.state != inCode && sp.state != inBlockComment {
			return lines
		}
		sp.Feed("\n")
	}
	trimmed := make([]string, len(lines))
	for i, l := range lines {
		trimmed[i] = strings.TrimSpace(l)
	}
	return []string{strings.TrimSpace(strings.Join(trimmed, " "))}
}

// completer offers DuckDB's own completions on Tab.
type completer struct{ s *Shell }

// Do returns what may follow the text before the cursor, in readline's form.
func (c *completer) Do(line []rune, pos int) ([][]rune, int) {
	before := string(line[:pos])
	if isDot(before) {
		var out [][]rune
		for _, d := range dotCommands() {
			if rest, ok := strings.CutPrefix(d.name, before); ok {
				out = append(out, []rune(rest+" "))
			}
		}
		return out, len([]rune(before))
	}
	// A slow catalog must not hold up typing.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	rows, err := c.s.conn.QueryContext(ctx, "SELECT suggestion, suggestion_start FROM sql_auto_complete(?) LIMIT 100", before)
	if err != nil {
		return nil, 0
	}
	defer rows.Close()
	var out [][]rune
	length := 0
	for rows.Next() {
		var suggestion string
		var start int
		if rows.Scan(&suggestion, &start) != nil || start < 0 || start > len(before) {
			return nil, 0
		}
		have := before[start:]
		// Only completions that go on from what is typed can be appended.
		if len(suggestion) >= len(have) && strings.EqualFold(suggestion[:len(have)], have) {
			out = append(out, []rune(suggestion[len(have):]))
			length = len([]rune(have))
		}
	}
	return out, length
}
