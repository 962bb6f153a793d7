package wire

import "testing"

// A writer with room for what is written copies nothing on the way.
func TestNew(t *testing.T) {
	w := New("mark\x01", 5+8*1000+4)
	at := &w[0]
	w.Floats(make([]float64, 1000)...)
	if b := w.Sum(); &b[0] != at || len(b) != 5+8*1000+4 {
		t.Errorf("%d bytes, which were moved: %v", len(b), &b[0] != at)
	}
	if w := New("mark", 0); string(w) != "mark" {
		t.Errorf("%q without room, want its mark", w)
	}
}
