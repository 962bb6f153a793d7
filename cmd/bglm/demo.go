package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/duckdb/duckdb-go/v2"
	"github.com/schollz/progressbar/v3"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/cmd/internal/shell"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/adf"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/stream"
)

type demoCommand struct {
	Data  string  `placeholder:"FILE" default:"testdata/flights.parquet" help:"Parquet file of flights with date, delay, distance, origin and destination (default: testdata/flights.parquet)."`
	Out   string  `placeholder:"DIR" default:"build/demo" help:"Folder for the belief tables (default: build/demo)."`
	Noise float64 `placeholder:"Q" default:"0.01" help:"Random-walk variance of every weight per day (default: 0.01)."`
	Quiet bool    `short:"q" help:"No progress bar."`
}

// Help is the text below the usage line.
func (*demoCommand) Help() string {
	return `Learns P(delay > 15 min) from flights: first with bglm_fit and no options, then in order of time with
an assumed density filter. It shows belief tables in SQL, predictions of each row before it is
learnt, calibration, and a run that is stored in a Parquet file and continued from there.

Examples:

  bglm demo
  bglm demo --data data/flights-3m.parquet`
}

const demoFeatures = `{origin: origin, destination: destination, hour: hour(date)::VARCHAR,
                weekday: dayname(date), distance: distance / 1000.0}`

// Run prints a session: each statement, then its result.
func (c *demoCommand) Run(e *cli.Env) (err error) {
	if !(c.Noise >= 0) {
		return cli.Usage(fmt.Errorf("--noise is %v, allowed is a number of 0 or more", c.Noise))
	}
	ctx, stop := signal.NotifyContext(e.Ctx, os.Interrupt)
	defer stop()
	if _, err := os.Stat(c.Data); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	width, _ := cli.TerminalWidth(e.Stdout)
	sh, err := shell.Open(ctx, shell.Options{Stdout: e.Stdout, Stderr: e.Stderr, Format: shell.Format{Mode: "box", MaxRows: 40, Width: width}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sh.Close()) }()
	d := demo{c: c, e: e, sh: sh, ctx: ctx}
	return d.run()
}

type demo struct {
	c   *demoCommand
	e   *cli.Env
	sh  *shell.Shell
	ctx context.Context
}

// quiet runs statements without showing them.
func (d *demo) quiet(sql string) error {
	_, err := d.sh.Conn().ExecContext(d.ctx, sql)
	return err
}

// show prints a statement and its result.
func (d *demo) show(sql string) error {
	sql = strings.TrimSpace(sql)
	fmt.Fprintf(d.e.Stdout, "\nbglm> %s\n", strings.ReplaceAll(sql, "\n", "\n  ...> "))
	return d.sh.RunText(d.ctx, "demo", sql)
}

func (d *demo) say(format string, a ...any) { fmt.Fprintf(d.e.Stdout, format+"\n", a...) }

// path is a file of the output folder.
func (d *demo) path(name string) string { return filepath.ToSlash(filepath.Join(d.c.Out, name)) }

// row scans the only row of a query.
func (d *demo) row(sql string, dst ...any) error {
	return d.sh.Conn().QueryRowContext(d.ctx, sql).Scan(dst...)
}

func (d *demo) run() error {
	n, err := d.learn()
	if err != nil {
		return err
	}
	if err := d.predict(n); err != nil {
		return err
	}
	return d.resume()
}

// learn fits n flights and shows the result.
func (d *demo) learn() (n int64, err error) {
	d.say("Late flights: P(delay > 15 min) over origin, destination, hour, weekday and distance.")
	if err := d.show(fmt.Sprintf(`CREATE TABLE flights AS
  SELECT row_number() OVER () AS i, date, delay > 15 AS late, origin,
         %s AS x
  FROM '%s';`, demoFeatures, strings.ReplaceAll(filepath.ToSlash(d.c.Data), "'", "''"))); err != nil {
		return 0, err
	}
	if err := d.show("SELECT count(*) AS flights, min(date) AS first, max(date) AS last, round(avg(late::INT), 4) AS share_late FROM flights;"); err != nil {
		return 0, err
	}
	if err := d.row("SELECT count(*) FROM flights", &n); err != nil {
		return 0, err
	}
	if n < 1000 {
		return 0, fmt.Errorf("--data: %d flights, at least 1000 are needed", n)
	}

	d.say("\nThe front door: no option. The rows fit memory, so laplace solves them, with the prior variance of each column learnt.")
	if err := d.show(`CREATE TABLE first AS SELECT bglm_fit(late, x) AS fit FROM flights;
SELECT fit.method, fit.n, fit.status FROM first;
SELECT s.term, round(s.mean, 3) AS mean, round(s.lower, 3) AS lower, round(s.upper, 3) AS upper, round(s.exp_mean, 3) AS odds, round(s.p_positive, 3) AS p_positive
FROM (SELECT unnest(bglm_summary(fit)) AS s FROM first) ORDER BY abs(s.mean) / s.sd DESC LIMIT 10;`); err != nil {
		return 0, err
	}
	d.say("\nA stream: row by row in time order by a probit assumed density filter with drifting weights, each tied to the intercept and its column's mean.")
	start := time.Now()
	if err := d.show(fmt.Sprintf(`CREATE TABLE fit AS
  SELECT bglm_adf(late, x, {link: 'probit', covariance: 'arrowhead', prior_variance: 1, time: date, process_noise: %v} ORDER BY i) AS fit
  FROM flights;`, d.c.Noise)); err != nil {
		return 0, err
	}
	took := time.Since(start).Seconds()
	d.say("%d rows in %.2f s: %.2f M rows/s, sorting included", n, took, float64(n)/took/1e6)
	if err := d.show(`SELECT fit.method, fit.link, fit.n, len(fit.beliefs) AS weights, round(fit.log_evidence / fit.n, 5) AS log_evidence_per_row, fit.status
FROM fit;`); err != nil {
		return 0, err
	}
	d.say("\nThe airports with the strongest beliefs (mean in standard deviations from 0), 95 %% intervals:")
	if err := d.show(`WITH b AS (SELECT unnest(fit.beliefs, recursive := true) FROM fit)
SELECT b.feature, round(mean, 3) AS mean, round(mean - 1.96 * sqrt(variance), 3) AS lower,
       round(mean + 1.96 * sqrt(variance), 3) AS upper, count(*) AS flights
FROM b JOIN flights f ON b.feature = 'origin=' || f.origin
GROUP BY ALL ORDER BY abs(any_value(mean)) / sqrt(any_value(variance)) DESC LIMIT 10;`); err != nil {
		return 0, err
	}
	d.say("\nA calibrated prediction, the weights integrated out:")
	return n, d.show(`SELECT origin, hour, round(bglm_predict(fit, {origin: origin, destination: 'SFO', hour: hour, weekday: 'Friday', distance: 1.8}), 4) AS p_late
FROM fit, (VALUES ('ORD'), ('ATL'), ('never seen')) o(origin), (VALUES ('7'), ('18')) h(hour) ORDER BY ALL;`)
}

// predict shows how well n rows are predicted before they are learnt.
func (d *demo) predict(n int64) error {
	d.say("\nNow each row is predicted before it is learnt, with drift, without, and by the running base rate.")
	if err := d.stream(n); err != nil {
		return err
	}
	if err := d.show(`SELECT model, round(bglm_log_loss(late, p), 5) AS log_loss, round(bglm_auc(late, p), 4) AS auc, round(bglm_brier(late, p), 5) AS brier
FROM (UNPIVOT predictions ON drift, no_drift, base_rate INTO NAME model VALUE p) GROUP BY model ORDER BY log_loss;`); err != nil {
		return err
	}
	d.say("\nCalibration of these predictions (with drift):")
	return d.show(`SELECT lower, upper, n, round(predicted, 4) AS predicted, round(observed, 4) AS observed
FROM (SELECT unnest(bglm_calibration(late, drift, 10), recursive := true) FROM predictions);`)
}

// resume stops before the last day, continues from a file, and compares the result with that of the
// uninterrupted run.
func (d *demo) resume() error {
	d.say("\nStop before the last day, keep the posterior in a file, and go on tomorrow from that file.")
	var cut string
	if err := d.row("SELECT strftime((SELECT max(date) - INTERVAL 1 MINUTE FROM flights), '%Y-%m-%d')", &cut); err != nil {
		return err
	}
	if err := d.show(fmt.Sprintf(`COPY (SELECT bglm_adf(late, x, {link: 'probit', covariance: 'arrowhead', prior_variance: 1, time: date, process_noise: %v} ORDER BY i) AS fit
      FROM flights WHERE date < '%s') TO '%s';`, d.c.Noise, cut, d.path("fit.parquet"))); err != nil {
		return err
	}
	if err := d.show(fmt.Sprintf(`CREATE TABLE tomorrow AS
  SELECT bglm_update(fit, (SELECT list({y: late, x: x, time: date} ORDER BY i) FROM flights WHERE date >= '%s'),
                     {process_noise: %v}) AS fit
  FROM '%s';`, cut, d.c.Noise, d.path("fit.parquet"))); err != nil {
		return err
	}
	if err := d.show(`SELECT a.fit.n = b.fit.n AS same_rows, len(a.fit.beliefs) = len(b.fit.beliefs) AS same_weights,
       list_max(list_transform(list_zip(a.fit.beliefs, b.fit.beliefs), lambda z: abs(z[1].mean - z[2].mean))) AS largest_difference_of_means,
       list_max(list_transform(list_zip(a.fit.beliefs, b.fit.beliefs), lambda z: abs(z[1].variance / z[2].variance - 1))) AS of_variances
FROM fit a, tomorrow b;`); err != nil {
		return err
	}
	var dm, dv float64
	if err := d.row(`SELECT list_max(list_transform(list_zip(a.fit.beliefs, b.fit.beliefs), lambda z: abs(z[1].mean - z[2].mean))),
		list_max(list_transform(list_zip(a.fit.beliefs, b.fit.beliefs), lambda z: abs(z[1].variance / z[2].variance - 1))) FROM fit a, tomorrow b`, &dm, &dv); err != nil {
		return err
	}
	if dm > 1e-12 || dv > 1e-12 {
		return fmt.Errorf("the continued run differs from the single one by %g (means) and %g (variances); 1e-12 was promised", dm, dv)
	}
	d.say("The split run equals the single one to rounding (1e-12); without drift it is equal bit for bit:")
	if err := d.show(fmt.Sprintf(`WITH whole AS (SELECT bglm_adf(late, x, {link: 'probit', covariance: 'arrowhead'} ORDER BY i) AS fit FROM flights),
first_part AS (SELECT bglm_adf(late, x, {link: 'probit', covariance: 'arrowhead'} ORDER BY i) AS fit FROM flights WHERE date < '%[1]s'),
both_parts AS (SELECT bglm_update(fit, (SELECT list({y: late, x: x} ORDER BY i) FROM flights WHERE date >= '%[1]s')) AS fit FROM first_part)
SELECT w.fit.beliefs = b.fit.beliefs AS equal FROM whole w, both_parts b;`, cut)); err != nil {
		return err
	}
	if err := d.show(fmt.Sprintf(`COPY (SELECT unnest(fit.beliefs, recursive := true) FROM tomorrow) TO '%s';`, d.path("beliefs.parquet"))); err != nil {
		return err
	}
	d.say("Belief tables: %s (the whole fit) and %s (feature, mean, variance)", d.path("fit.parquet"), d.path("beliefs.parquet"))
	return nil
}

// prediction is for one flight, made before it was learnt: with drift, without, and by the running
// base rate.
type prediction struct {
	late bool
	p    [3]float64
}

// stream predicts and learns n rows one by one in Go with the kernels, and stores the predictions
// in a table.
func (d *demo) stream(n int64) error {
	l, err := lik.New("bernoulli", "probit", lik.Params{Dispersion: 1})
	if err != nil {
		return err
	}
	var models [2]*stream.State // with drift, without
	for k, noise := range []float64{d.c.Noise, 0} {
		if models[k], err = adf.NewTied(&kernels.Model{Lik: l, Prior: kernels.DefaultPrior, HasTime: true, Noise: noise}); err != nil {
			return err
		}
		models[k].Features().Use(kernels.NewColumns([]string{"origin", "destination", "hour", "weekday"}, []string{"distance"}))
	}
	start := time.Now()
	out, err := d.predictions(l, models, n)
	if err != nil {
		return err
	}
	took := time.Since(start).Seconds()
	d.say("%d rows, two models: %.2f s, %.2f M rows/s and model, reading included", len(out), took, 2*float64(len(out))/took/1e6)
	var evidence float64
	if err := d.row("SELECT fit.log_evidence FROM fit", &evidence); err != nil {
		return err
	}
	streamed := models[0].Summary().LogEvidence
	d.say("log evidence %.6f by SQL, %.6f streamed", evidence, streamed)
	if !(math.Abs(evidence-streamed) <= 1e-12*math.Abs(streamed)) { // the same sums in the same order
		return fmt.Errorf("the fit by SQL and the streamed one differ")
	}
	if err := d.quiet("CREATE OR REPLACE TABLE predictions (late BOOLEAN, drift DOUBLE, no_drift DOUBLE, base_rate DOUBLE)"); err != nil {
		return err
	}
	return d.sh.Conn().Raw(func(c any) error {
		a, err := duckdb.NewAppenderFromConn(c.(driver.Conn), "", "predictions")
		if err != nil {
			return err
		}
		for _, p := range out {
			if err := a.AppendRow(p.late, p.p[0], p.p[1], p.p[2]); err != nil {
				return errors.Join(err, a.Close())
			}
		}
		return a.Close()
	})
}

// bar is a progress bar over n rows, silent without a terminal.
func (d *demo) bar(n int64) *progressbar.ProgressBar {
	if !cli.IsTerminal(d.e.Stderr) || d.c.Quiet {
		return progressbar.DefaultSilent(n)
	}
	return progressbar.NewOptions64(n, progressbar.OptionSetWriter(d.e.Stderr), progressbar.OptionSetDescription("predict and learn"),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("rows"), progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100*time.Millisecond))
}

// predictions reads the flights in order; the models learn each after it is predicted.
func (d *demo) predictions(l lik.Likelihood, models [2]*stream.State, n int64) ([]prediction, error) {
	bar := d.bar(n)
	rows, err := d.sh.Conn().QueryContext(d.ctx, `SELECT late, epoch_us(date) / 86400e6, 'origin=' || x.origin, 'destination=' || x.destination,
		'hour=' || x.hour, 'weekday=' || x.weekday, x.distance FROM flights ORDER BY i`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := make([]prediction, 0, n)
	var batch kernels.Batch
	var names [4]sql.RawBytes
	late, seen := 0.0, 0.0
	for rows.Next() {
		var y bool
		var day, distance float64
		if err := rows.Scan(&y, &day, &names[0], &names[1], &names[2], &names[3], &distance); err != nil {
			return nil, err
		}
		pr := prediction{late: y}
		target := 0.0
		if y {
			target = 1
		}
		for k, m := range models {
			if pr.p[k], err = learn(d.ctx, l, m, &batch, names[:], distance, day, target); err != nil {
				return nil, err
			}
		}
		pr.p[2] = (late + 1) / (seen + 2) // the rule of succession
		late += target
		seen++
		out = append(out, pr)
		if len(out)%4096 == 0 {
			if err := bar.Add(4096); err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return out, bar.Finish()
}

// learn predicts one flight and updates the model with it.
func learn(ctx context.Context, l lik.Likelihood, m *stream.State, batch *kernels.Batch, names []sql.RawBytes, distance, day, target float64) (p float64, err error) {
	batch.Reset()
	batch.Add(0, 1) // the intercept comes first
	for _, name := range names {
		if err := batch.AddNamed(m.Features(), string(name), 1); err != nil {
			return 0, err
		}
	}
	if err := batch.AddNamed(m.Features(), "distance", distance); err != nil {
		return 0, err
	}
	batch.EndRow()
	batch.Y, batch.Time = append(batch.Y, target), append(batch.Time, day)
	var mean, variance [1]float64
	if err := m.Linear(batch, mean[:], variance[:]); err != nil {
		return 0, err
	}
	p, _ = l.Predict(mean[0], variance[0])
	return p, m.Update(ctx, batch, false)
}
