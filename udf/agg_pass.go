package udf

import (
	"fmt"

	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/udf/internal/capi"
)

// passState is the aggregate state of bglm_newton_merge.
type passState struct{ engine.Part }

func (s *passState) Clone() capi.State { return &passState{s.Copy()} }

func (s *passState) Merge(src capi.State) error {
	o, ok := src.(*passState)
	if !ok {
		return errMixedStates
	}
	return s.Join(running(), o.Part)
}

// longPart is the number of bytes from which a state is read and written in a goroutine that an
// interrupt does not wait for: a gigabyte takes seconds.
const longPart = 1 << 20

// readPass is the state in entry i of v.
func readPass(v *capi.Vec, i int) (engine.Part, error) {
	p, err := decodePart([]byte(v.Str(i)))
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return p, nil
}

// decodePart is engine.DecodePart of bytes that are not shared.
func decodePart(b []byte) (engine.Part, error) {
	return abandonable(len(b) >= longPart, func() (engine.Part, error) { return engine.DecodePart(b) })
}

// partBytes encodes p, which it leaves unchanged.
func partBytes(p engine.Part) ([]byte, error) {
	return abandonable(p.Size() >= longPart, func() ([]byte, error) { return p.Bytes(), nil })
}

func checkPasses(v *capi.Vec) error {
	if v.Type != capi.Blob && v.Type != capi.SQLNull {
		return fmt.Errorf("state is %s; allowed: BLOB, from bglm_newton_state or bglm_newton_merge", v.TypeName())
	}
	return nil
}

func updatePasses(args []capi.Vec, slots capi.Slots) error {
	if err := checkPasses(&args[0]); err != nil {
		return err
	}
	return slots.Runs(func(slot capi.Slot, lo, hi int) error {
		for i := lo; i < hi; i++ {
			if args[0].Null(i) {
				continue // NULL is ignored, as in sum
			}
			p, err := readPass(&args[0], i)
			if err != nil {
				return err
			}
			fresh := false
			st, err := slot.Mutable(func() (capi.State, error) { fresh = true; return &passState{p}, nil })
			if err == nil && !fresh {
				err = st.(*passState).Join(running(), p)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func writePasses(s *passState, out *capi.Col) error {
	b, err := partBytes(s.Part)
	if err != nil {
		return err
	}
	out.Bytes(b)
	return nil
}

// solvingAt reads the options of bglm_newton_solve: those of the pass, without the columns that
// vary by row.
func solvingAt(opt *capi.Vec, i int) (*option.Settings, error) {
	if err := checkOptions(opt, exampleOptions["newton_state"]); err != nil {
		return nil, err
	}
	return option.For("newton_state").Without(option.RowFields()...).Decode(constants(opt, i, false))
}

// callSolve is bglm_newton_solve.
func callSolve(args []capi.Vec, n int, out *capi.Col) error {
	if err := checkPasses(&args[0]); err != nil {
		return err
	}
	var opt *capi.Vec
	if len(args) > 1 {
		opt = &args[1]
	}
	m, err := engine.Find("newton_state")
	if err != nil {
		return err
	}
	for i := range n {
		if args[0].Null(i) {
			out.Null()
			continue
		}
		p, err := readPass(&args[0], i)
		if err != nil {
			return err
		}
		s, err := solvingAt(opt, i)
		if err != nil {
			return err
		}
		model, err := m.Model(s, false, p.Trials())
		if err != nil {
			return err
		}
		step, err := p.Step(running(), model)
		if err != nil {
			return err
		}
		appendFit(out, step.Fit, step.Fit.Each)
	}
	return nil
}
