package main

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/arrowio/pqrows"
	"github.com/bglm/bglm/cmd/internal/job"
)

// byArrow fits without SQL.
func (c *fitCommand) byArrow(s *session) (*fits, int, error) {
	a, err := job.NewArrow(s.Session, c.data(), c.model())
	if err != nil {
		return nil, 0, err
	}
	if c.Prior != "" {
		if a.Grouped() {
			return nil, 0, usageError{errors.New("--engine arrow takes no --prior with --group")}
		}
		if err := c.continueArrow(s, a); err != nil {
			return nil, 0, fmt.Errorf("--prior %s: %w", c.Prior, err)
		}
	}
	g, err := a.Fit()
	if err != nil {
		return nil, 0, err
	}
	if err := s.insertGroups(g); err != nil {
		return nil, 0, err
	}
	f, err := s.look("fits", a.Meta)
	return f, len(a.Files), err
}

func (c *fitCommand) continueArrow(s *session, a *job.Arrow) error {
	prior, err := s.load("prior_fits", c.Prior, nil)
	if err != nil {
		return err
	}
	if err := samePrior(prior, nil); err != nil {
		return err
	}
	from, err := s.fetch(prior)
	if err != nil {
		return err
	}
	return a.Continue(from)
}

// insertGroups makes the table fits of what the engine gave.
func (s *session) insertGroups(g *arrowio.Groups) error {
	if g.Keys == nil {
		return s.insert("fits", g.Fits[0])
	}
	defer g.Keys.Release()
	// The keys go through Parquet, which keeps their types.
	path := filepath.Join(s.dir, "keys.parquet")
	r, err := array.NewRecordReader(g.Keys.Schema(), []arrow.RecordBatch{g.Keys})
	if err != nil {
		return err
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(pqrows.FromArrow(out, r), out.Close()); err != nil {
		return err
	}
	if err := s.exec("CREATE TEMP TABLE bglm_keys AS FROM read_parquet(" + quoteText(path) + ", file_row_number = true); " +
		"CREATE TEMP TABLE bglm_weights (bglm_row BIGINT, k BIGINT, feature VARCHAR, mean DOUBLE, variance DOUBLE, covariance DOUBLE[]); " +
		"CREATE TEMP TABLE bglm_heads (bglm_row BIGINT, method VARCHAR, family VARCHAR, link VARCHAR, shape DOUBLE, dispersion DOUBLE, intercept BOOLEAN, hash_bits INTEGER, pm DOUBLE, pv DOUBLE, pi DOUBLE, " +
		"\"time\" DOUBLE, kind VARCHAR, rank INTEGER, n BIGINT, n_skipped BIGINT, log_evidence DOUBLE, iterations INTEGER, converged BOOLEAN, status VARCHAR)"); err != nil {
		return err
	}
	orNull := func(v float64) driver.Value {
		if math.IsNaN(v) {
			return nil
		}
		return v
	}
	err = s.append("bglm_heads", len(g.Fits), func(i int) []driver.Value {
		f := g.Fits[i]
		var hash driver.Value
		if f.HashBits > 0 {
			hash = int32(f.HashBits)
		}
		return []driver.Value{int64(i), f.Method, f.Family, f.Link, orNull(f.Shape), f.Dispersion, f.Intercept, hash, f.Prior.Mean, f.Prior.Variance, f.Prior.InterceptVariance,
			orNull(f.Time), f.Covariance.Form.String(), int32(f.Covariance.Rank), f.N, f.Skipped, orNull(f.LogEvidence), int32(f.Iterations), f.Converged, f.Status}
	})
	if err != nil {
		return err
	}
	type place struct{ g, k int }
	var at []place
	for i, f := range g.Fits {
		for k := range f.Beliefs {
			at = append(at, place{i, k})
		}
	}
	err = s.append("bglm_weights", len(at), func(i int) []driver.Value {
		f := g.Fits[at[i].g]
		b := &f.Beliefs[at[i].k]
		row := []float64{}
		if len(f.Covariance.Values) > 0 {
			row = f.Covariance.Row(at[i].k)
		}
		return []driver.Value{int64(at[i].g), int64(at[i].k), b.Feature, b.Mean, b.Variance, row}
	})
	if err != nil {
		return err
	}
	return s.exec(`CREATE OR REPLACE TEMP TABLE fits AS SELECT k.* EXCLUDE (file_row_number), {'method': h.method, 'family': h.family, 'link': h.link, 'shape': h.shape, 'dispersion': h.dispersion, 'intercept': h.intercept,
		'hash_bits': h.hash_bits, 'prior': {'mean': pm, 'variance': pv, 'intercept_variance': pi}, 'time': h."time", 'beliefs': coalesce(w.beliefs, []), 'covariance': {'kind': h.kind, 'rank': h.rank, 'values': coalesce(w.v, [])},
		'n': h.n, 'n_skipped': h.n_skipped, 'log_evidence': h.log_evidence, 'iterations': h.iterations, 'converged': h.converged, 'status': h.status} AS fit
		FROM bglm_keys k JOIN bglm_heads h ON k.file_row_number = h.bglm_row LEFT JOIN (SELECT bglm_row, list({'feature': feature, 'mean': mean, 'variance': variance} ORDER BY k) AS beliefs, flatten(list(covariance ORDER BY k)) AS v FROM bglm_weights GROUP BY bglm_row) w ON h.bglm_row = w.bglm_row
		ORDER BY k.file_row_number`)
}
