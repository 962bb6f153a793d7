// Package fitstore stores fits: in a temporary table of the session while a command works with
// them, and in files: belief tables in Parquet, Arrow, CSV and JSON, and DuckDB databases, with the
// job that made them.
package fitstore

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/option"
)

// Fits is a temporary table of the session, with the columns of groups and fit.
type Fits struct {
	Table string
	Group []duck.Column
	// IsFit says that fit is a FIT; bglm_gp returns another STRUCT. HasClass says that its beliefs
	// have classes.
	IsFit, HasClass bool
	Meta            []string // pairs: the job that made them

	s *duck.Session
}

// Job is the value of a key of the job that made the fits, "" for none.
func (f *Fits) Job(key string) string {
	for i := 0; i+1 < len(f.Meta); i += 2 {
		if f.Meta[i] == key {
			return f.Meta[i+1]
		}
	}
	return ""
}

// LosesCovariance reports whether the fits have a covariance, or factors of predictions, that a
// file cannot store, so that its predictions differ; gaps, whether those of rows with a missing
// value do.
func (f *Fits) LosesCovariance(path string) (apart, gaps bool, err error) {
	if !f.IsFit || !beliefsAlone(path) {
		return false, false, nil
	}
	err = f.s.Row("SELECT coalesce(bool_or(fit.covariance.kind <> 'diagonal' OR list_contains(list_transform(fit.learnt, lambda bglm_l: bglm_l.name), '"+kernels.KeptPredictive+"')), false), "+
		"coalesce(bool_or(list_sum(list_transform(fit.columns, lambda bglm_c: bglm_c.missing)) > 0 AND len(list_filter(fit.beliefs, lambda bglm_b: suffix(bglm_b.feature, "+quote.Text(kernels.IsNull)+"))) > 0), false) FROM "+f.Table, &apart, &gaps)
	return apart, gaps, err
}

// beliefsAlone reports whether a file at path stores feature, mean and variance, and no more.
func beliefsAlone(path string) bool {
	kind := OutKind(path)
	return kind == "csv" || kind == "json"
}

// Needs is what a file of beliefs alone needs to predict, to be merged and to be continued as the
// fits are.
type Needs struct {
	Options string   // such as "--option family=poisson", "" if the file has them
	Lost    []string // parameters that differ between groups, while an option applies to all
	Priors  bool     // there are prior variances of single columns or groups, which no option gives
	Given   string   // priors of single features that the job was given, as written
}

// MissingOptions returns what a file at path needs that cannot store the whole fits.
func (f *Fits) MissingOptions(path string) (n Needs, err error) {
	if !f.IsFit || f.HasClass || !beliefsAlone(path) {
		return n, nil
	}
	same := func(field string) string {
		return "CASE WHEN count(DISTINCT fit." + field + ") = 1 THEN any_value(fit." + field + ") END"
	}
	var family, link string
	var shape, dispersion, mean, variance, interceptVariance sql.NullFloat64
	var intercept bool
	var hashBits sql.NullInt64
	err = f.s.Row("SELECT any_value(fit.family), any_value(fit.link), "+same("shape")+", "+same("dispersion")+", coalesce(any_value(fit.intercept), true), any_value(fit.hash_bits), "+
		same("prior.mean")+", "+same("prior.variance")+", "+same("prior.intercept_variance")+", count(DISTINCT fit.prior.variance) > 1 OR "+
		"coalesce(bool_or(len(list_filter(fit.columns, lambda bglm_c: bglm_c.variance <> fit.prior.variance OR bglm_c.kind = '"+kernels.LevelsColumn+"' AND bglm_c.scale > 0)) > 0), false) FROM "+f.Table,
		&family, &link, &shape, &dispersion, &intercept, &hashBits, &mean, &variance, &interceptVariance, &n.Priors)
	if err != nil {
		return n, err
	}
	n.Given = f.Job("option.priors")
	n.Options = "--option family=" + family
	if i := slices.IndexFunc(lik.Families(), func(x lik.Info) bool { return x.Family == family }); i >= 0 && lik.Families()[i].Links[0] != link {
		n.Options += " --option link=" + link
	}
	add := func(key string, v float64) { n.Options += fmt.Sprintf(" --option %s=%.6g", key, v) }
	for _, p := range []struct {
		key string
		v   sql.NullFloat64
	}{{"shape", shape}, {"dispersion", dispersion}} {
		switch {
		case !slices.Contains(lik.With(p.key), family):
		case p.v.Valid:
			add(p.key, p.v.Float64)
		default:
			n.Lost = append(n.Lost, p.key)
		}
	}
	if !intercept {
		n.Options += " --option intercept=false"
	}
	for _, p := range []struct {
		key     string
		v       sql.NullFloat64
		without float64
	}{{"prior_mean", mean, kernels.DefaultPrior.Mean}, {"prior_variance", variance, kernels.DefaultPrior.Variance}, {"intercept_variance", interceptVariance, kernels.DefaultPrior.InterceptVariance}} {
		if p.v.Valid && p.v.Float64 != p.without && (intercept || p.key != "intercept_variance") {
			add(p.key, p.v.Float64)
		}
	}
	if hashBits.Int64 > 0 {
		n.Options += fmt.Sprintf(" --option hash_bits=%d", hashBits.Int64)
	}
	return n, nil
}

// Alone reports whether some of the fits are made of a table of beliefs, which does not say under
// which prior they were learnt.
func (f *Fits) Alone() (alone bool, err error) {
	if f.IsFit {
		err = f.s.Row("SELECT coalesce(bool_or(fit.method = 'beliefs'), false) FROM "+f.Table, &alone)
	}
	return alone, err
}

// ConflictError returns an error for options that differ from those of the fits, or that have no use
// with a fit: they are for beliefs without a model, and have no effect on a fit.
func (f *Fits) ConflictError(opts [][2]string) error {
	if !f.IsFit {
		return nil
	}
	for _, o := range opts {
		if slices.Contains(job.RowKeys, o[0]) {
			continue
		}
		if _, err := option.For("from_beliefs").Find(o[0]); err != nil {
			return cli.Usage(err)
		}
		is, said := "fit."+o[0], "("+job.OptionSQL(o[0], o[1])+")"
		same := "lower(" + is + "::VARCHAR) = lower(" + said + "::VARCHAR)"
		near := func() string { return "abs(" + is + " / TRY_CAST(" + said + " AS DOUBLE) - 1) < 1e-5" } // to the digits printed by a summary
		switch o[0] {
		case "family", "link", "intercept":
		case "dispersion", "shape":
			same = near()
		case "prior_mean", "prior_variance", "intercept_variance":
			is = "fit.prior." + strings.TrimPrefix(o[0], "prior_")
			same = is + " = TRY_CAST(" + said + " AS DOUBLE) OR " + near()
		case "hash_bits":
			same = is + " = TRY_CAST(" + said + " AS INTEGER)"
		case "covariance":
			is = "fit.covariance.kind"
			same = "fit.method = 'beliefs' OR " + is + " = lower(" + said + "::VARCHAR)"
		}
		var other sql.NullString
		if err := f.s.Row("SELECT any_value(coalesce("+is+"::VARCHAR, 'none')) FILTER (NOT coalesce("+same+", false)) FROM "+f.Table+" WHERE fit IS NOT NULL", &other); err != nil {
			return err
		}
		if other.Valid {
			return cli.Usage(fmt.Errorf("--option %s=%s: the fit has %s; allowed: that, or none, for the option is of beliefs that do not say", o[0], o[1], other.String))
		}
	}
	return nil
}

// Open describes a table of fits; meta are the pairs of its job.
func Open(s *duck.Session, table string, meta []string) (*Fits, error) {
	cols, err := s.Describe("FROM " + table)
	if err != nil {
		return nil, err
	}
	f := &Fits{Table: table, Meta: meta, s: s}
	found := false
	for _, c := range cols {
		if strings.EqualFold(c.Name, "fit") {
			found = true
			f.IsFit = strings.Contains(c.Type, "beliefs STRUCT(")
			f.HasClass = strings.Contains(c.Type, "class VARCHAR") || strings.Contains(c.Type, `"class" VARCHAR`)
		} else {
			f.Group = append(f.Group, c)
		}
	}
	if !found {
		return nil, fmt.Errorf("no column fit; found: %s", strings.Join(duck.Names(cols), ", "))
	}
	return f, nil
}

// Continues checks that the fits can be the prior of a job with these groups.
func (f *Fits) Continues(group []string) error {
	if !f.IsFit {
		return errors.New("its fit is not one to start from")
	}
	if a, b := strings.Join(duck.Names(f.Group), ", "), strings.Join(group, ", "); !strings.EqualFold(a, b) {
		return fmt.Errorf("its groups are (%s), those of the job (%s)", a, b)
	}
	return nil
}
