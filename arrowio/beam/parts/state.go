package parts

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/engine"
)

// State summarises parts of the rows of one group. The zero State is that of no rows, the identity
// of Merge, which is associative and commutative up to rounding.
type State struct {
	part engine.Part  // of passes
	fit  *kernels.Fit // of ADF
}

// The first byte of an encoded State. What follows has a version of its own: that of
// engine.Part.Bytes or of the belief table of package arrowio.
const (
	none   = 'n'
	passOf = 'p'
	table  = 't'
)

// Bytes encodes the state; DecodeState reads it on any machine.
func (s State) Bytes() ([]byte, error) {
	switch {
	case s.part != nil:
		return append([]byte{passOf}, s.part.Bytes()...), nil
	case s.fit != nil:
		b, err := encodeFit(s.fit)
		return append([]byte{table}, b...), err
	}
	return []byte{none}, nil
}

// DecodeState reads Bytes. Errors: bytes that are not a state, or one of a later version.
func DecodeState(b []byte) (State, error) {
	if len(b) == 0 {
		return State{}, errors.New("the bytes are no state of bglm: there are none")
	}
	switch b[0] {
	case passOf:
		p, err := engine.DecodePart(b[1:])
		if err != nil {
			return State{}, err
		}
		return State{part: p}, nil
	case table:
		f, err := decodeFit(b[1:])
		return State{fit: f}, err
	case none:
		if len(b) == 1 {
			return State{}, nil
		}
	}
	return State{}, fmt.Errorf("the bytes are no state of bglm: they begin with %#x", b[0])
}

// encodeFit encodes a belief table as an Arrow IPC stream, which is cheaper than a Parquet file
// where there are many groups.
func encodeFit(f *kernels.Fit) ([]byte, error) {
	rec, err := arrowio.FitRecord(f, nil)
	if err != nil {
		return nil, err
	}
	defer rec.Release()
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(rec.Schema()))
	err = errors.Join(w.Write(rec), w.Close())
	return b.Bytes(), err
}

func decodeFit(b []byte) (*kernels.Fit, error) {
	r, err := ipc.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("a fit of the pipeline: %w", err)
	}
	defer r.Release()
	return arrowio.ReadFit(r, nil)
}

// A Merger merges states of a job.
type Merger struct{ from *kernels.Fit }

// NewMerger returns a merger for a job. Errors: those of the fit that the job starts from.
func NewMerger(j *Job) (*Merger, error) {
	if j.Method != ADF {
		return &Merger{}, nil
	}
	from, err := j.from()
	return &Merger{from[""]}, err
}

// Merge merges a and b; a may change. Fits are multiplied, with the prior or the fit that they
// continue counted once: Λ = Λa + Λb - Λ0. Cost: that of engine.Part.Join or kernels.MergeFits.
// Errors: theirs, for states of different jobs.
func (m *Merger) Merge(ctx context.Context, a, b State) (State, error) {
	switch {
	case b.part == nil && b.fit == nil:
		return a, nil
	case a.part == nil && a.fit == nil:
		return b, nil
	case (a.part == nil) != (b.part == nil):
		return a, errors.New("states of different methods")
	case a.part != nil:
		return a, a.part.Join(ctx, b.part)
	}
	f, err := kernels.MergeFits(ctx, []*kernels.Fit{a.fit, b.fit}, m.from, adf.MergeArrowheads)
	return State{fit: f}, err
}
