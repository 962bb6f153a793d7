package capi

import (
	"fmt"
	"strconv"
	"strings"
)

// Verified lists the releases of DuckDB that the tests run on. Other patch releases of their series
// are admitted, because they pass states in the same way.
var Verified = []string{"1.3.2", "1.4.4", "1.5.5", "1.5.6"}

// admit reports whether this build supports a DuckDB version (v1.5.6, v1.5.7-dev12), and whether it
// needs the rules for DuckDB 2.
func admit(version string) (rules bool, err error) {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	n, bad := strconv.Atoi(minor)
	switch {
	case bad == nil && major == "1" && n >= 2 && n <= 5:
		return false, nil
	case bad == nil && major == "2":
		return true, nil
	}
	return false, fmt.Errorf("found DuckDB %s; allowed: 1.2 to 1.5 (tested in %s) and 2 (by rules that a simulation of it tested); "+
		"others may pass aggregate states in another way, and a wrong answer is worse than none: get a newer bglm", Printable(version), strings.Join(Verified, ", "))
}
