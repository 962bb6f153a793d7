package capi

import "testing"

// TestAdmit: which releases of DuckDB are served, and which by the rules for DuckDB 2.
//
// covers: hosts
func TestAdmit(t *testing.T) {
	for v, want := range map[string]string{
		"v1.2.0": "plain", "v1.3.2": "plain", "v1.5.6": "plain", "v1.5.7": "plain", "v1.5.7-dev12": "plain",
		"v2.0.0": "rules", "v2.1.3": "rules", "v2.0.0-dev5": "rules",
		"v1.1.3": "refused", "v1.6.0": "refused", "v3.0.0": "refused", "v20.0.0": "refused", "v0.10.2": "refused", "": "refused", "v2": "refused",
		"v1.x": "refused", "main": "refused", "v-1.5": "refused",
	} {
		rules, err := admit(v)
		got := map[bool]string{false: "plain", true: "rules"}[rules]
		if err != nil {
			got = "refused"
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", v, got, err, want)
		}
	}
	for _, v := range Verified {
		if _, err := admit("v" + v); err != nil {
			t.Error(err)
		}
	}
}
