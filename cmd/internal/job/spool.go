package job

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/arrowio/pqrows"
	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/files"
)

// spool copies the standard input to a temporary file, once: other sources of the session share the
// copy.
func (src *Source) spool() (path string, err error) {
	s := src.s
	if s.Spooled.Path == "" {
		if s.Spooled.Path, err = src.copied(); err != nil {
			s.Spooled.Path = ""
			return "", err
		}
		s.Spooled.Kind = src.Kind
	}
	src.Kind = s.Spooled.Kind
	return s.Spooled.Path, nil
}

func (src *Source) copied() (string, error) {
	s := src.s
	in := bufio.NewReaderSize(s.Env.Stdin, 1<<20)
	if _, err := in.Peek(1); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("no data")
		}
		return "", err
	}
	in, err := files.Unpacked(in)
	if err != nil {
		return "", err
	}
	if src.Kind == "" {
		src.Kind = files.Sniff(in)
	}
	if src.Kind == "arrow" {
		return SpoolArrow(s, "standard input", in, 0)
	}
	f, err := os.Create(filepath.Join(s.Dir, "stdin."+src.Kind))
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, &untilDone{in, s})
	return f.Name(), errors.Join(err, f.Close())
}

// untilDone stops reading after Ctrl-C.
type untilDone struct {
	io.Reader
	s *duck.Session
}

func (u *untilDone) Read(p []byte) (int, error) {
	if err := u.s.Ctx.Err(); err != nil {
		return 0, cli.ErrInterrupted
	}
	return u.Reader.Read(p)
}

// SpoolArrow converts an Arrow IPC file, or a stream, to a temporary Parquet file.
func SpoolArrow(s *duck.Session, name string, in *bufio.Reader, i int) (string, error) {
	r, err := openArrow(s, name, in)
	if err != nil {
		return "", err
	}
	defer r.Close()
	f, err := os.Create(filepath.Join(s.Dir, fmt.Sprintf("arrow-%d.parquet", i)))
	if err != nil {
		return "", err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err := errors.Join(pqrows.FromArrow(w, r), w.Flush(), f.Close()); err != nil {
		return "", files.Named(name, err)
	}
	unended(s, name, r)
	return f.Name(), s.Failed(s.Ctx.Err())
}

// unended says if r, which has been read to its end, is a stream without the mark of its end.
func unended(s *duck.Session, name string, r array.RecordReader) {
	if r, ok := r.(*arrowio.Reader); ok && r.Unended() {
		note := fmt.Errorf("%s: the stream has no mark of its end, as if cut off between two records: rows may be missing, unless its writer leaves the mark out", name)
		fmt.Fprintln(s.Env.Stderr, "bglm: "+s.Env.Message(note))
	}
}

// openArrow opens a file, or in under that name.
func openArrow(s *duck.Session, name string, in *bufio.Reader) (*arrowio.Reader, error) {
	if in == nil {
		return arrowio.OpenIPC(name)
	}
	if head, _ := in.Peek(6); string(head) != "ARROW1" {
		return arrowio.StreamIPC(name, in)
	}
	// A file needs seeking.
	f, err := os.CreateTemp(s.Dir, "stdin-*.arrow")
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(f, in); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return arrowio.OpenIPC(f.Name())
}
