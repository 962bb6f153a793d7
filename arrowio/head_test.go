package arrowio

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/fitlayout"
)

// A field of the FIT is one entry of the list: it is in the JSON of files, and comes back.
func TestOneEntryIsAField(t *testing.T) {
	type record struct {
		Old, New float64
		Name     string
	}
	fields := []fitlayout.Field[record]{{Name: "old", At: func(r *record) any { return &r.Old }},
		{Name: "extra", Optional: true, Since: 3, Fields: []fitlayout.Field[record]{
			{Name: "new", At: func(r *record) any { return &r.New }, Nullable: true}, {Name: "name", At: func(r *record) any { return &r.Name }}}}}
	for text, in := range map[string]record{
		`{"old":1.0,"extra":{"new":null,"name":"\"Infinity\""}}`: {1, math.NaN(), `"Infinity"`},
		`{"old":-Infinity,"extra":{"new":1e-300,"name":"é"}}`:    {math.Inf(-1), 1e-300, "é"},
	} {
		if got := string(appendObject(nil, fields, &in)); got != text {
			t.Errorf("%s, want %s", got, text)
		}
		var object map[string]any
		d := json.NewDecoder(strings.NewReader(quoteInfinite(text)))
		d.UseNumber()
		if err := d.Decode(&object); err != nil {
			t.Fatal(err)
		}
		var out record
		if err := setObject(object, fields, "", &out); err != nil || out.Old != in.Old || out.Name != in.Name || bits(out.New) != bits(in.New) {
			t.Errorf("%s: %+v, %v", text, out, err)
		}
	}
	var out record
	if err := setObject(map[string]any{"old": json.Number("2")}, fields, "", &out); err != nil || out.Old != 2 {
		t.Errorf("the layout before: %+v, %v", out, err)
	}
	if err := setObject(map[string]any{}, fields, "", &out); err == nil || !strings.Contains(err.Error(), "no field old") {
		t.Errorf("without a field: %v", err)
	}
}
