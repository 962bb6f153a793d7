package kernels

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bglm/bglm/kernels/argument"
)

// Correlation is what a fit learnt of the weights that two columns of levels have for one level:
// mean and standard deviation of their correlation (SD NaN if it was not integrated), and the
// covariance of those of a new level.
type Correlation struct {
	A, B       string
	Mean, SD   float64
	Covariance float64
}

// Related is an entry of a row whose feature has no belief.
type Related struct {
	Name []byte
	X    float64
}

// CorrelatedVariance is the variance of a predictor beyond the prior variances of entries whose
// features have no belief: of new levels of correlated columns. variance is the sum of those, which
// limits a negative result.
func (f *Fit) CorrelatedVariance(unseen []Related, variance float64) float64 {
	if len(f.Correlations) == 0 {
		return 0
	}
	sum := 0.0
	for i := range unseen {
		for j := range unseen {
			if cov, ok := f.TiedPrior(unseen[i].Name, unseen[j].Name); ok {
				sum += 2 * unseen[i].X * unseen[j].X * cov
			}
		}
	}
	return max(sum, -variance)
}

// TiedPrior is the covariance of features a and b, never seen, of the first and the second column
// of a correlation; false for others.
func (f *Fit) TiedPrior(a, b []byte) (float64, bool) {
	for _, c := range f.Correlations {
		first, ok := bytes.CutPrefix(a, []byte(c.A))
		second, too := bytes.CutPrefix(b, []byte(c.B))
		if ok && too && isLevel(first) && isLevel(second) && sameLevel(string(first), string(second)) {
			return f.covarianceOf(&c), true
		}
	}
	return 0, false
}

// isLevel reports whether text can follow the name of a column of levels.
func isLevel(text []byte) bool {
	return len(text) > 0 && text[0] == '=' || string(text) == IsNull
}

// Share is a draw of the weight of a feature without a belief, a level of a column that is
// correlated with others, from independent standard normals z of names: those of the columns before
// it in its set contribute. w is its prior; false if its column is correlated with none.
func (f *Fit) Share(name []byte, w Weight, z func(name []byte) float64) (float64, bool) {
	set, at, level := f.setOf(name)
	if set == nil {
		return 0, false
	}
	n := at + 1
	l := make([]float64, n*n) // Cholesky factor of the covariance of set[:n]
	x := w.Mean
	for i := range n {
		for j := range i + 1 {
			s := f.prior(set[i], set[j], level)
			for k := range j {
				s -= l[i*n+k] * l[j*n+k]
			}
			if i == j {
				l[i*n+i] = math.Sqrt(max(s, 0))
			} else if d := l[j*n+j]; d > 0 {
				l[i*n+j] = s / d
			}
		}
	}
	for j := range n {
		x += l[at*n+j] * z([]byte(set[j]+plain(level)))
	}
	return x, true
}

// setOf returns the set of columns that a feature's column is correlated with, in order, its index
// there, and the text after its name.
func (f *Fit) setOf(name []byte) (set []string, at int, level string) {
	at = -1
	for _, c := range f.Correlations {
		for _, column := range []string{c.A, c.B} {
			if text, ok := bytes.CutPrefix(name, []byte(column)); ok && at < 0 && isLevel(text) {
				set, at, level = []string{column}, 0, string(text)
			}
		}
	}
	if at < 0 {
		return nil, 0, ""
	}
	own := set[0]
	for more := true; more; {
		more = false
		for _, c := range f.Correlations {
			for k, column := range []string{c.A, c.B} {
				if other := []string{c.B, c.A}[k]; slices.Contains(set, column) && !slices.Contains(set, other) {
					set, more = append(set, other), true
				}
			}
		}
	}
	slices.Sort(set)
	return set, slices.Index(set, own), level
}

// prior is the covariance of the weights that columns a and b have for a new level.
func (f *Fit) prior(a, b, level string) float64 {
	if a == b {
		return f.PriorOf([]byte(a + level)).Variance
	}
	for _, c := range f.Correlations {
		if c.A == a && c.B == b || c.A == b && c.B == a {
			return f.covarianceOf(&c)
		}
	}
	return 0
}

// covarianceOf is the covariance of c, computed from the columns if it is due to centring a number.
func (f *Fit) covarianceOf(c *Correlation) float64 {
	if len(f.Learnt) > 0 {
		if center, _, ok := f.Kept(KeptCrossedOf(c.B)); ok {
			return -center * f.PriorOf([]byte(c.B+"=")).Variance
		}
	}
	return c.Covariance
}

// Tie is an entry of Model.Correlated over the columns of a problem.
type Tie struct {
	Names  []string // of the columns of levels
	Levels [][]int  // by level: the column of the problem for each of Names
}

// Correlates reports whether the weights of column have a covariance with those of other columns.
func (m *Model) Correlates(column string) bool {
	return slices.ContainsFunc(m.Correlated, func(set []string) bool {
		return slices.ContainsFunc(set, func(name string) bool { return strings.EqualFold(name, column) })
	})
}

// escaped and plain are a level as written in interactions and as it is: '\' precedes ':' and '\'.
func escaped(level string) string { return escapes.Replace(level) }

var escapes = strings.NewReplacer(`\`, `\\`, ":", `\:`)

func plain(level string) string {
	if !strings.Contains(level, `\`) {
		return level
	}
	var b strings.Builder
	for i := 0; i < len(level); i++ {
		if level[i] == '\\' && i+1 < len(level) {
			i++
		}
		b.WriteByte(level[i])
	}
	return b.String()
}

// sameLevel reports whether the texts after the names of two columns denote the same level.
func sameLevel(a, b string) bool { return a == b || escaped(a) == b || a == escaped(b) }

// levelOf returns the column of levels of a feature and the text after its name, "=value" or
// IsNull; "" for none.
func levelOf(d *Dict, id uint32) (column, level string) {
	name := string(d.Name(id))
	if column = d.LevelColumn(id); column == "" {
		if column, _, _ = strings.Cut(name, "="); column == name {
			return "", ""
		}
	}
	return column, name[len(column):]
}

// levels are the features of the columns of a set: by column and the text after its name.
type levels []map[string]uint32

func levelsOf(d *Dict, set []string) levels {
	all := make(levels, len(set))
	for k := range set {
		all[k] = map[string]uint32{}
	}
	for id := range d.Len() {
		column, level := levelOf(d, uint32(id))
		if column == "" {
			continue
		}
		if k := slices.IndexFunc(set, func(name string) bool { return strings.EqualFold(name, column) }); k >= 0 {
			all[k][level] = uint32(id)
		}
	}
	return all
}

// find returns the feature of column k for a level as written by another column.
func (all levels) find(k int, level string) (uint32, bool) {
	id, ok := all[k][level]
	if !ok {
		id, ok = all[k][escaped(level)]
	}
	if text := plain(level); !ok && sameLevel(level, text) {
		id, ok = all[k][text]
	}
	return id, ok
}

// tied returns r with a feature for every level in all correlated columns: a weight without rows
// learns from the others of its level.
// Errors: a column without levels, if there are rows.
func (r *Rows) tied() (*Rows, error) {
	if len(r.Model.Correlated) == 0 || r.Len() == 0 {
		return r, nil
	}
	if r.Dict.HashBits > 0 {
		return nil, &argument.Error{Name: "correlated", Why: "needs the names of levels, which hash_bits does not keep"}
	}
	own, columns := r, r.counted.Columns()
	for _, set := range r.Model.Correlated {
		if err := shareLevels(columns, set); err != nil {
			return nil, err
		}
		all := levelsOf(&own.Dict, set)
		for k, of := range all {
			if len(of) == 0 {
				return nil, r.noLevels(set[k])
			}
			var missing []string
			for level := range of {
				for o := range all {
					if _, ok := all.find(o, level); !ok {
						missing = append(missing, set[o]+level)
					}
				}
			}
			if len(missing) == 0 {
				continue
			}
			if own == r {
				own = r.Clone()
			}
			slices.Sort(missing)
			for _, name := range missing {
				if _, err := own.Dict.AddRaw(name); err != nil {
					return nil, err
				}
			}
			all = levelsOf(&own.Dict, set)
		}
	}
	return own, nil
}

// shareLevels returns an error for two columns of set that cannot have a level in common, as g and
// the interaction f:g of two columns of levels: no level then has weights in both.
func shareLevels(columns []FitColumn, set []string) error {
	first, levels := "", 0
	for _, name := range set {
		at := slices.IndexFunc(columns, func(c FitColumn) bool { return c.Kind == LevelsColumn && strings.EqualFold(c.Name, name) })
		if at < 0 {
			continue
		}
		n := 1
		if parts, ok := SplitParts(columns[at].Parts); ok {
			n = 0
			for _, p := range parts {
				if p.Kind == LevelsColumn {
					n++
				}
			}
		}
		if first == "" {
			first, levels = name, n
		}
		if n != levels {
			return &argument.Error{Name: "correlated", Found: fmt.Sprintf("columns %q and %q", first, name),
				Why: fmt.Sprintf("the levels of one are of %d and those of the other of %d columns, so that none is in both; in a formula (f || g) takes levels f for independent of g", levels, n)}
		}
	}
	return nil
}

func (r *Rows) noLevels(column string) error {
	var found []string
	for id := range r.Dict.Len() {
		if name, _ := levelOf(&r.Dict, uint32(id)); name != "" && !slices.Contains(found, name) && len(found) < 50 {
			found = append(found, name)
		}
	}
	e := argument.Word("correlated", column, found)
	if len(found) == 0 {
		e.Why = "the rows have no column of levels"
	}
	e.Found = fmt.Sprintf("column %q", column)
	return e
}

// Ties returns the columns of p that Model.Correlated ties, by level in the belief order of the
// first column.
// Errors: a weight among them that has a prior of its own.
func (p *Problem) Ties() ([]Tie, error) {
	if len(p.Correlated) == 0 {
		return nil, nil
	}
	at := make([]int, p.dict.Len())
	for id := range at {
		at[id] = -1
	}
	for j, id := range p.cols {
		at[id] = j
	}
	var out []Tie
	for _, set := range p.Correlated {
		t := Tie{Names: make([]string, len(set))}
		all := levelsOf(p.dict, set)
		for _, id := range p.order {
			column, level := levelOf(p.dict, id)
			if !strings.EqualFold(column, set[0]) {
				continue
			}
			of := make([]int, len(set))
			for k := range set {
				id, _ := all.find(k, level)
				t.Names[k], _ = levelOf(p.dict, id)
				j := at[id]
				if j < 0 || p.Born[j] || p.PriorMean[j] != 0 {
					return nil, &argument.Error{Name: "correlated", Found: fmt.Sprintf("feature %q with a prior of its own", p.dict.Name(id)),
						Why: "weights whose covariance is learnt have a prior mean of 0, and no belief to start from"}
				}
				of[k] = j
			}
			t.Levels = append(t.Levels, of)
		}
		if len(t.Levels) > 0 { // there are rows
			out = append(out, t)
		}
	}
	return out, nil
}
