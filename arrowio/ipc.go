package arrowio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/bglm/bglm/kernels"
)

// Reader is a RecordReader over a file or stream that closes what it opened.
// Its errors name the source.
type Reader struct {
	array.RecordReader
	name   string
	close  func() error
	err    error
	stream *stream // nil for a file
}

// Unended reports, of a stream read to its end, whether this had no mark of it, which writers may
// leave out: records may be missing.
func (r *Reader) Unended() bool { return r.stream != nil && r.stream.unended && r.Err() == nil }

// Next moves to the next record and checks its arrays. A panic of the Arrow library on a damaged
// source becomes an error.
func (r *Reader) Next() (more bool) {
	defer func() {
		if p := recover(); p != nil {
			r.err, more = Damage(p), false
		}
	}()
	if r.err != nil || !r.RecordReader.Next() {
		return false
	}
	r.err = validate(r.RecordBatch())
	return r.err == nil
}

// Err is the first error, naming the source.
func (r *Reader) Err() error {
	err := r.err
	if err == nil {
		err = r.RecordReader.Err()
	}
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("%s: %w", r.name, Damage(err))
}

// Close releases the reader and closes its file.
func (r *Reader) Close() error {
	func() {
		defer func() { _ = recover() }() // after a panic inside, reference counts may be wrong
		r.Release()
	}()
	if r.close == nil {
		return nil
	}
	return r.close()
}

var fileMagic = []byte("ARROW1")

// OpenIPC opens an Arrow IPC file or stream, recognised by its first bytes.
// Compressed buffers (lz4, zstd) are supported. Errors name the path.
func OpenIPC(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	head := make([]byte, len(fileMagic))
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		f.Close()
		if errors.Is(err, io.EOF) {
			err = errors.New("the file is empty; an Arrow IPC file or stream was expected")
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var r *Reader
	if bytes.Equal(head[:n], fileMagic) {
		r, err = fileReader(path, f)
	} else if _, err = f.Seek(0, io.SeekStart); err == nil {
		r, err = StreamIPC(path, f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	r.close = f.Close
	return r, nil
}

// StreamIPC reads an Arrow IPC stream; name stands for it in errors.
func StreamIPC(name string, in io.Reader) (_ *Reader, err error) {
	defer guard(name, &err)
	buf := bufio.NewReaderSize(in, 1<<20)
	if head, _ := buf.Peek(len(fileMagic)); bytes.Equal(head, fileMagic) {
		return nil, fmt.Errorf("%s: an Arrow IPC file; a pipe takes the stream format, which needs no seeking", name)
	}
	checked := &stream{in: buf}
	r, err := ipc.NewReader(checked, ipc.WithDelayReadSchema(false))
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("no data")
		}
		return nil, fmt.Errorf("%s: not an Arrow IPC stream: %w", name, Damage(err))
	}
	return &Reader{RecordReader: r, name: name, stream: checked}, nil
}

func guard(name string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: %w", name, Damage(p))
	}
}

func fileReader(name string, f *os.File) (_ *Reader, err error) {
	defer guard(name, &err)
	st, err := f.Stat()
	if err == nil {
		err = checkFile(f, st.Size())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r, err := ipc.NewFileReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: not an Arrow IPC file: %w", name, Damage(err))
	}
	return &Reader{RecordReader: &fileRecords{r: r}, name: name}, nil
}

// fileRecords reads the records of an IPC file in order.
type fileRecords struct {
	r    *ipc.FileReader
	at   int
	rec  arrow.RecordBatch
	fail error
}

func (f *fileRecords) Retain()                        {}
func (f *fileRecords) Schema() *arrow.Schema          { return f.r.Schema() }
func (f *fileRecords) RecordBatch() arrow.RecordBatch { return f.rec }
func (f *fileRecords) Record() arrow.RecordBatch      { return f.rec }
func (f *fileRecords) Err() error                     { return f.fail }

func (f *fileRecords) Release() {
	if f.rec != nil {
		f.rec.Release()
		f.rec = nil
	}
	f.r.Close()
}

func (f *fileRecords) Next() bool {
	if f.rec != nil {
		f.rec.Release()
		f.rec = nil
	}
	if f.at >= f.r.NumRecords() {
		return false
	}
	if f.rec, f.fail = f.r.RecordBatchAt(f.at); f.fail != nil {
		f.fail = fmt.Errorf("record %d: %w", f.at+1, Damage(f.fail))
		return false
	}
	f.at++
	return true
}

// WriteIPC writes f as an Arrow IPC file (Feather) to w. meta is as in WriteParquet.
//
// Errors: those of FitRecord and of w; after an error w holds part of a file.
func WriteIPC(w io.Writer, f *kernels.Fit, meta ...string) error {
	if err := writeIPC(w, f, meta); err != nil {
		return fmt.Errorf("arrowio: %w", err)
	}
	return nil
}

func writeIPC(w io.Writer, f *kernels.Fit, meta []string) error {
	rec, err := fitRecord(f, nil, meta)
	if err != nil {
		return err
	}
	defer rec.Release()
	out, err := ipc.NewFileWriter(unclosed{w}, ipc.WithSchema(rec.Schema()))
	if err != nil {
		return err
	}
	return errors.Join(out.Write(rec), out.Close())
}

// WriteIPCFile is WriteIPC to the file path, by way of a temporary file as in WriteParquetFile.
func WriteIPCFile(path string, f *kernels.Fit, meta ...string) error {
	return writeFile(path, func(w io.Writer) error { return writeIPC(w, f, meta) })
}

// ReadFitFile reads the fit in the file path: Parquet, or an Arrow IPC file or stream, recognised
// by the first bytes. Errors name the path.
func ReadFitFile(path string, o *Options) (*kernels.Fit, map[string]string, error) {
	fail := func(err error) (*kernels.Fit, map[string]string, error) {
		return nil, nil, fmt.Errorf("reading %s: %w", path, err)
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	head := make([]byte, 4)
	if _, err := io.ReadFull(in, head); err != nil {
		return fail(errors.New("not a belief table: the file is shorter than any"))
	}
	if string(head) == "PAR1" {
		st, err := in.Stat()
		if err != nil {
			return fail(err)
		}
		f, kv, err := readParquetMeta(in, st.Size(), o)
		if err != nil {
			return fail(err)
		}
		return f, kv, nil
	}
	r, err := OpenIPC(path)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	f, err := readFit(r, o)
	if err != nil {
		return fail(err)
	}
	m := r.Schema().Metadata()
	return f, extra(m.Keys(), m.Values()), nil
}
