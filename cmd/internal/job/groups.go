package job

import (
	"fmt"
	"strings"

	"github.com/bglm/bglm/cmd/internal/duck"
	"github.com/bglm/bglm/cmd/internal/quote"
	"github.com/bglm/bglm/kernels/memory"
)

// Several fits of rows that are not all kept at once: groups whose rows fit in memory are fitted
// directly, as many groups at a time as fit together; the others by passes, several groups in each.

// bytesOf is the approximate memory for a row of k entries during a fit: as it is read, and as the
// engine stores it, the latter twice to allow for uncollected garbage.
func bytesOf(k float64) float64 { return 48*k + 128 }

// Room is how many rows of src are kept at a time, in a quarter of the memory budget.
func (j *Job) Room(src *Source) (int64, error) {
	k, err := j.entries(src)
	if err != nil {
		return 0, err
	}
	return max(int64(float64(memory.Limit()/4)/bytesOf(k)), 1), nil
}

// entries is the approximate number of entries in a row of src.
func (j *Job) entries(src *Source) (float64, error) {
	from := "(" + j.Inner(src.Rows()) + ") q"
	x, err := j.s.Describe("SELECT bglm_x FROM " + from)
	if err != nil {
		return 0, src.Blame(err)
	}
	fields := []duck.Column{{Name: "bglm_x", Type: x[0].Type}}
	part := func(name string) string { return quote.Name(name) }
	if strings.HasPrefix(x[0].Type, "STRUCT(") && !strings.HasSuffix(x[0].Type, "]") {
		if fields, err = j.s.Describe("SELECT unnest(bglm_x) FROM " + from); err != nil {
			return 0, src.Blame(err)
		}
		part = func(name string) string { return "bglm_x." + quote.Name(name) }
	}
	k, lists := 1.0, []string(nil)
	for _, f := range fields {
		switch {
		case strings.HasPrefix(f.Type, "MAP("):
			lists = append(lists, "cardinality("+part(f.Name)+")")
		case strings.HasSuffix(f.Type, "]"):
			lists = append(lists, "len("+part(f.Name)+")")
		default:
			k += 1 + float64(strings.Count(f.Type, ","))
		}
	}
	if len(lists) == 0 {
		return k, nil
	}
	var more float64
	err = j.s.Row("SELECT coalesce(max("+strings.Join(lists, " + ")+"), 0)::DOUBLE FROM (SELECT bglm_x FROM "+from+" LIMIT 10000)", &more)
	return k + more, src.Blame(err)
}

// Divide creates the table sizes: each group with its number of rows and its part. The groups of a
// part have up to room rows in total; parts are numbered from 0, and -1 is for a group with more
// rows. It returns the number of parts, and the number of groups with more rows, which are numbered
// from 0 in bglm_k.
func (j *Job) Divide(src *Source, room int64) (parts, large int, err error) {
	keys := quote.Names(j.GroupNames())
	half := max(room/2, 1)
	err = j.s.Long("counting", fmt.Sprintf(`CREATE OR REPLACE TEMP TABLE counted AS
		SELECT *, CASE WHEN bglm_n <= %[2]d THEN ((sum(bglm_n) FILTER (bglm_n <= %[2]d) OVER before - 1) // %[2]d)::INTEGER ELSE -1 END AS bglm_part,
			(row_number() OVER before)::INTEGER - 1 AS bglm_k
		FROM (SELECT %[3]s, count(*) AS bglm_n FROM %[4]s GROUP BY ALL) WINDOW before AS (ORDER BY bglm_n <= %[2]d, %[1]s ROWS UNBOUNDED PRECEDING)`,
		keys, half, strings.Join(j.GroupBy, ", "), src.Rows()))
	if err == nil {
		// parts are numbered without gaps
		err = j.s.Exec("CREATE OR REPLACE TEMP TABLE sizes AS SELECT * REPLACE (CASE WHEN bglm_part < 0 THEN -1 ELSE dense_rank() OVER (ORDER BY bglm_part) - 1 - (SELECT count(*) > 0 FROM counted WHERE bglm_part < 0)::INTEGER END AS bglm_part) FROM counted")
	}
	if err == nil {
		err = j.s.Row("SELECT coalesce(max(bglm_part), -1) + 1, count(*) FILTER (bglm_part < 0) FROM sizes", &parts, &large)
	}
	return parts, large, src.Blame(err)
}

// FitPart creates the table fits for the groups of a part, without those in the table done.
func (j *Job) FitPart(src *Source, what string, part int) error {
	names := j.GroupNames()
	var more []Setting
	if p := j.passes(); p != nil && p.Covariance != "" {
		more = append(more, Setting{Key: "covariance", SQL: "'" + p.Covariance + "'"})
	}
	options := j.OptionsOf(func(key string) bool { return key != sites }, more...)
	err := j.s.Long(what, fmt.Sprintf("CREATE OR REPLACE TEMP TABLE fits AS SELECT %s, bglm_%s(bglm_y, bglm_x, %s) AS fit FROM (%s) q SEMI JOIN (FROM sizes s ANTI JOIN done d ON %s WHERE bglm_part = %d) p ON %s GROUP BY ALL",
		quote.Names(names), j.Method, options, j.Inner(src.Rows()), Matching(names, "s", "d"), part, Matching(names, "q", "p")))
	if err != nil {
		return j.locate(src, err)
	}
	return nil
}

// large is the rows of the groups numbered ks in sizes, with bglm_k and bglm_n.
func (j *Job) large(src *Source, ks []int) string {
	return fmt.Sprintf("(%s) q JOIN (SELECT * FROM sizes WHERE bglm_k IN (%s)) p ON %s", j.Inner(src.Rows()), numbers(ks), Matching(j.GroupNames(), "q", "p"))
}

func numbers(ks []int) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ks)), ", "), "[]")
}

// SampleGroups adds fits of samples of the groups numbered ks to the table around.
func (j *Job) SampleGroups(src *Source, what string, ks []int) error {
	err := j.s.Long(what, fmt.Sprintf("INSERT INTO around SELECT bglm_k, bglm_laplace(bglm_y, bglm_x, %s) AS fit FROM (SELECT q.*, p.bglm_k FROM %s WHERE random() < %d / bglm_n) GROUP BY ALL",
		j.sampling(), j.large(src, ks), sampleRows))
	if err != nil {
		return j.locate(src, err)
	}
	return nil
}

// PassGroups replaces fits of the groups numbered ks in the table around by the result of a pass
// over the rows.
func (j *Job) PassGroups(src *Source, what string, ks []int) error {
	var states, solved []string
	for _, k := range ks {
		more := Setting{Key: "around", SQL: fmt.Sprintf("(SELECT fit FROM around WHERE bglm_k = %d)", k)}
		states = append(states, fmt.Sprintf("bglm_newton_state(bglm_y, bglm_x, %s) FILTER (bglm_k = %d) AS s%d", j.OptionsText(more), k, k))
		solved = append(solved, fmt.Sprintf("SELECT %d AS bglm_k, bglm_newton_solve(s%d, %s) AS fit FROM pass", k, k, j.Constants()))
	}
	err := j.s.Long(what, fmt.Sprintf("CREATE OR REPLACE TEMP TABLE pass AS SELECT %s FROM (SELECT q.*, p.bglm_k FROM %s)", strings.Join(states, ", "), j.large(src, ks)))
	if err != nil {
		return j.locate(src, err)
	}
	for _, q := range []string{
		"CREATE OR REPLACE TEMP TABLE solved AS " + strings.Join(solved, " UNION ALL "),
		"DELETE FROM around WHERE bglm_k IN (" + numbers(ks) + ")",
		"INSERT INTO around FROM solved",
	} {
		if err := j.s.Exec(q); err != nil {
			return src.Blame(err)
		}
	}
	return nil
}
