package kernels

import "testing"

// A status is "ok" until something is said, and says nothing twice.
func TestSay(t *testing.T) {
	f := &Fit{Status: "ok"}
	for _, c := range []struct{ say, want string }{
		{"", "ok"}, {"ok", "ok"}, {"one", "one"}, {"two", "one; two"}, {"one", "one; two"}, {"", "one; two"}, {"on", "one; two; on"},
	} {
		if f.Say(c.say); f.Status != c.want {
			t.Fatalf("after %q: %q, want %q", c.say, f.Status, c.want)
		}
	}
}
