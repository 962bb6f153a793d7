package main

import (
	"fmt"
	"strings"

	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/kernels/option"
)

// withoutBadRows runs judging without the invalid rows that the fit was told to skip: if judging
// fails on one of them, they are found, and the others are judged again.
func (sc *scoring) withoutBadRows(s *duck.Session, judging func() error) error {
	err := judging()
	if err == nil || s.Interrupted() != nil {
		return err
	}
	if found, e := sc.excludeBadRows(s); e != nil || !found {
		return err // of another kind
	}
	return judging()
}

// excludeBadRows leaves invalid rows out of those that are scored, and reports whether there were
// any, and a fit that skips them.
func (sc *scoring) excludeBadRows(s *duck.Session) (found bool, err error) {
	if sc.spared || strings.Trim(sc.fits.Job("option.on_error"), "'") != string(option.Skip) {
		return false, nil
	}
	sc.spared = true
	var all, good int64
	bad, err := sc.badSQL(s)
	if err == nil {
		err = s.Long("checking rows", "CREATE OR REPLACE TEMP TABLE spared AS FROM "+sc.rows+" WHERE NOT ("+bad+")")
	}
	if err == nil {
		err = s.Row("SELECT (SELECT count(*) FROM "+sc.rows+"), (SELECT count(*) FROM spared)", &all, &good)
	}
	if err != nil || good == all {
		return false, err
	}
	sc.rows, sc.skipped = "spared", all-good
	return true, nil
}

// badSQL is the condition that a row is invalid: that a fit without beliefs rejects it.
func (sc *scoring) badSQL(s *duck.Session) (string, error) {
	fit, y := "bglm_from_beliefs([]::STRUCT(feature VARCHAR, mean DOUBLE, variance DOUBLE)[], {family: 'gaussian'})", "0"
	if !sc.fits.HasClass { // any label is a class
		var family, link string
		if err := s.Row("SELECT any_value(fit.family), any_value(fit.link) FROM fits", &family, &link); err != nil {
			return "", err
		}
		fit, y = strings.Replace(fit, "'gaussian'", quote.Text(family)+", link: "+quote.Text(link), 1), sc.y
	}
	row := fmt.Sprintf("y: (%s), x: (%s)", y, sc.x)
	for _, key := range []string{"offset", "trials", "weight"} {
		if v, ok := sc.job.Option(key); ok {
			row += fmt.Sprintf(", %s: (%s)", quote.Text(key), v)
		}
	}
	return "bglm_update(" + fit + ", [{" + row + "}], {on_error: 'null'}) IS NULL", nil
}
