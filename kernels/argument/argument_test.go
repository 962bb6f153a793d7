package argument

import (
	"errors"
	"fmt"
	"testing"
)

func TestError(t *testing.T) {
	for _, c := range []struct {
		e    *Error
		want string
	}{
		{Word("link", "probti", []string{"logit", "probit"}), "link: found 'probti'; allowed: logit, probit; the nearest is probit"},
		{&Error{Name: "shape", Why: "is not used by poisson; it belongs to: gamma"}, "shape is not used by poisson; it belongs to: gamma"},
		{&Error{Name: "shape", Found: "'auto'", Why: "poisson has none", Allowed: "gamma"}, "shape: found 'auto'; poisson has none; allowed: gamma"},
		{&Error{Name: "link", Found: "'logit'", For: "poisson", Allowed: "log"}, "link: found 'logit'; allowed for poisson: log"},
	} {
		if got := c.e.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestReword(t *testing.T) {
	flag := func(e *Error) string { return e.Named("--" + e.Name) }
	inner := &Error{Name: "rank", Found: "0", Allowed: "1 and more"}
	err := Reword(fmt.Errorf("group a: %w (skip it)", inner), flag)
	if want := "group a: --rank: found 0; allowed: 1 and more (skip it)"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if e := (*Error)(nil); !errors.As(err, &e) || e != inner {
		t.Error("the error is lost")
	}
	if plain := errors.New("no"); Reword(plain, flag) != plain || Reword(nil, flag) != nil {
		t.Error("other errors stay")
	}
}
