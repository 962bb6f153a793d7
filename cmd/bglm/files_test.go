package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bglm/bglm/cmd/internal/files"
	"github.com/bglm/bglm/cmd/internal/shell"
	"github.com/bglm/bglm/kernels/kerneltest"
)

// A stream that stops between two records may be whole, as writers need not mark its end: it is
// read, and a message says so. One that ends with the mark is not mentioned.
func TestStreamWithoutEnd(t *testing.T) {
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	query(t, "COPY (SELECT i, i % 3 = 0 AS y, i * 0.5 AS x FROM range(3000) t(i)) TO '"+path("d.parquet")+"'")
	ok(t, "fit", path("d.parquet"), "-f", "y ~ x", "--out", path("b.parquet"), "-q")
	ok(t, "predict", "-b", path("b.parquet"), path("d.parquet"), "--out", path("d.arrows"), "-q")
	b, err := os.ReadFile(path("d.arrows"))
	if err != nil {
		t.Fatal(err)
	}
	const end = "\xff\xff\xff\xff\x00\x00\x00\x00"
	if err := os.WriteFile(path("open.arrows"), bytes.TrimSuffix(b, []byte(end)), 0o600); err != nil || !bytes.HasSuffix(b, []byte(end)) {
		t.Fatal(err, "or no mark at the end")
	}
	for _, file := range []string{"d.arrows", "open.arrows"} {
		for _, engine := range []string{"duckdb", "arrow"} {
			r := ok(t, "fit", path(file), "--engine", engine, "-f", "y ~ x", "--out", path("out.parquet"))
			said := strings.Contains(r.stderr, "open.arrows: the stream has no mark of its end")
			if said != (file == "open.arrows") || !strings.Contains(r.stdout+r.stderr, "3,000 rows") {
				t.Errorf("%s, %s: %s%s", file, engine, r.stdout, r.stderr)
			}
		}
	}
}

// Damaged, empty and unreadable files, alone and among good ones, in every command
// that reads rows: exit code 1, a message that names the file and shows no control
// character, no part of an output.
func TestDamagedData(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	const rows = "SELECT i, i % 3 = 0 AS y, 'a' || i % 5 AS ad, i * 0.5 AS x FROM range(3000) t(i)"
	for _, f := range []string{"d.parquet", "d.csv", "d.json", "d.csv.gz", "d.json.gz", "d.csv.zst"} {
		query(t, "COPY ("+rows+") TO '"+path(f)+"'")
	}
	ok(t, "sql", "--db", path("d.duckdb"), "-c", "CREATE TABLE rows AS "+rows)
	ok(t, "fit", path("d.parquet"), "-f", "y ~ ad + x", "--out", path("b.parquet"), "-q")
	for _, f := range []string{"d.arrow", "d.arrows"} {
		ok(t, "predict", "-b", path("b.parquet"), path("d.parquet"), "--out", path(f), "-q")
	}
	put := func(name string, b []byte) string {
		if err := os.WriteFile(path(name), b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path(name)
	}
	whole := func(name string) []byte {
		b, err := os.ReadFile(path(name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	part := func(name string) []byte { b := whole(name); return b[:len(b)*2/3] }
	flipped := whole("d.parquet")
	for i := 300; i < 1200; i += 50 {
		flipped[i] ^= 0x55
	}
	const head = "i,y,ad,x\n0,true,a0,0.0\n1,false,a1,0.5\n"
	type damaged struct{ file, good, want string }
	cases := []damaged{
		{put("half.csv", whole("d.csv")[:20000]), "d.csv", "half-written: its last line, 1086, has 1 of 4 fields"},
		{put("field.csv", []byte(head+"2,fa")), "d.csv", "half-written: its last line, 4, has 2 of 4 fields"},
		{put("quote.csv", []byte(head+"2,false,\"a")), "d.csv", "half-written: the quotation in line 4 has no end"},
		{put("short.csv", []byte(head+"2,fa\n"+strings.Repeat("3,true,a3,1.5\n", 20))), "d.csv", "not every line has as many"},
		{put("long.csv", []byte(head+"2,false,a2,1.0,9\n"+strings.Repeat("3,true,a3,1.5\n", 20))), "d.csv", "not every line has as many"},
		{put("head.csv", []byte("i,y\n"+strings.Repeat("3,true,a3,1.5\n", 20))), "d.csv", "not every line has as many"},
		{put("cut.csv.gz", part("d.csv.gz")), "d.csv.gz", "half-written: its compressed data stop"},
		{put("cut.csv.zst", part("d.csv.zst")), "d.csv.zst", "half-written: its compressed data stop"},
		{put("cut.json.gz", part("d.json.gz")), "d.json.gz", "half-written: its compressed data stop"},
		{put("text.csv.gz", []byte("no gzip at all")), "d.csv.gz", "damaged"},
		{put("cut.json", part("d.json")), "d.json", "Malformed JSON"},
		{put("cut.parquet", part("d.parquet")), "d.parquet", "half-written: a Parquet file ends with"},
		{put("four.parquet", []byte("PAR1")), "d.parquet", "cut off"},
		{put("text.parquet", []byte("this is no Parquet file")), "d.parquet", "not a Parquet file"},
		{put("flip.parquet", flipped), "d.parquet", ""},
		{put("cut.arrow", part("d.arrow")), "d.arrow", "cut off"},
		{put("cut.arrows", part("d.arrows")), "d.arrows", "EOF"},
		{put("cut.duckdb", part("d.duckdb")), "", ""},
		{put("utf16.csv", []byte("\xff\xfei\x00,\x00y\x00\n\x001\x00,\x001\x00\n\x00")), "d.csv", "text in UTF-16; allowed: UTF-8"},
		{put("latin.csv", []byte(head+"2,false,K\xf6ln,1.0\n"+strings.Repeat("3,true,a3,1.5\n", 20))), "d.csv", "not UTF-8; allowed: UTF-8"},
		{put("text.duckdb", bytes.Repeat([]byte("no database "), 1000)), "", "not a DuckDB database"},
		{put("red\x1b[31m\nred.csv", []byte(head+"2,fa")), "d.csv", `red\x1B[31m\nred.csv: cut off`},
	}
	for _, ext := range []string{"csv", "json", "parquet", "arrow", "duckdb"} {
		cases = append(cases, damaged{put("empty."+ext, nil), "d." + ext, "the file is empty"})
		if err := os.Mkdir(path("folder."+ext), 0o700); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, damaged{path("folder." + ext), "d." + ext, "a folder"})
	}
	if os.Getuid() != 0 {
		secret := put("secret.csv", []byte(head))
		if err := os.Chmod(secret, 0); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, damaged{secret, "d.csv", "permission denied"})
	}
	before, _ := os.ReadDir(dir)
	out := path("out.csv")
	for i, c := range cases {
		commands := [][]string{
			{"fit", "-f", "y ~ ad + x", "--out", out},
			{"predict", "-b", path("b.parquet"), "--out", out},
			{"report", "-b", path("b.parquet"), "--out", path("out.html")},
			{"evaluate", "-b", path("b.parquet"), "-q"},
			{"evaluate", "--y", "y", "--p", "x / 1500", "-q"},
		}
		for k, args := range commands {
			// Every command reads by the same way in: each case through one more of them
			// tells enough, and the flipped bits through all.
			if k > 0 && i%4 != k-1 && c.want != "" {
				continue
			}
			inputs := [][]string{{c.file}}
			if c.good != "" && filepath.Ext(c.good) != ".duckdb" {
				inputs = append(inputs, []string{path(c.good), c.file})
			}
			for _, in := range inputs {
				r := bglm(t, "", append(args, in...)...)
				switch name := shell.Visible(c.file); {
				case strings.Contains(c.file, "flip") && r.code == 0 && (k == 0 || k == 3 || k == 4): // unread columns, or numbers without a check sum
				case strings.Contains(c.file, "head") && len(in) == 1 && strings.Contains(r.stderr, name): // no column by that name
				case r.code != 1, !strings.Contains(r.stderr, name), !strings.Contains(r.stderr, c.want), strings.Contains(r.stderr, "LINE 1"), strings.ContainsAny(r.stderr, "\x1b\x00"), r.stdout != "":
					t.Errorf("%s of %q: %+v; want exit code 1, the file's name and %q", args[0], in, r, c.want)
				}
				os.Remove(out)
				os.Remove(path("out.html"))
			}
		}
	}
	if after, _ := os.ReadDir(dir); len(after) != len(before) {
		t.Errorf("files were left: %v", after)
	}
}

// Faults of the fit that rows are scored with are reported with its file, and errors of several
// files that DuckDB does not name with the one that fails.
func TestFaultsAreNamed(t *testing.T) {
	kerneltest.Slow(t)
	data := rowsFile(t, "rows.parquet")
	path := func(n string) string { return filepath.Join(filepath.Dir(data), n) }
	wide, none, other := path("wide.csv"), path("none.json"), path("other.json")
	const bare = `[{"fit": {"method": "adf", "family": "bernoulli", "beliefs": [{"feature": "x", "mean": 0, "variance": 1}]}}]`
	if err := errors.Join(os.WriteFile(wide, []byte("feature,mean,variance\nx,0,1e308\n"), 0o600),
		os.WriteFile(none, []byte(bare), 0o600), os.WriteFile(other, []byte(bare), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"predict", "-b", wide, "-o", "family=bernoulli", data, "-f", "y ~ x", "--where", "x > 1", "--out", path("out.csv")},
		{"evaluate", "-b", wide, "-o", "family=bernoulli", data, "-f", "y ~ x"},
		{"report", "-b", wide, "-o", "family=bernoulli", data, "-f", "y ~ x", "--out", path("out.html")},
		{"predict", "-b", none, data, "-f", "y ~ x", "--out", path("out.csv")},
		{"fit", data, "-f", "y ~ x", "--prior", none},
		{"merge", none, other},
	} {
		file := wide
		if strings.Contains(strings.Join(args, " "), none) {
			file = none
		}
		if r := bglm(t, "", args...); r.code != 1 || !strings.Contains(r.stderr, file) {
			t.Errorf("%v: %+v", args, r)
		}
	}
	ok(t, "fit", data, "-f", "y ~ x", "--out", path("fit.parquet"), "-q")
	query(t, "COPY (SELECT NULL::BOOLEAN AS y, x FROM '"+data+"') TO '"+path("no-y.parquet")+"'")
	for _, args := range [][]string{{"-b", path("fit.parquet")}, {"--p", "x", "--y", "y"}} {
		if r := bglm(t, "", append([]string{"evaluate", path("no-y.parquet")}, args...)...); r.code != 1 || !strings.Contains(r.stderr, "no-y.parquet: no row has both") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	ok(t, "fit", data, "-f", "y ~ x", "--group", "g", "--out", path("grouped.parquet"), "-q")
	query(t, "COPY (SELECT i, y, x FROM '"+data+"') TO '"+path("no-g.parquet")+"'")
	if r := bglm(t, "", "evaluate", "-b", path("grouped.parquet"), path("no-g.parquet")); r.code != 1 || !strings.Contains(r.stderr, "grouped.parquet with --group") || !strings.Contains(r.stderr, "no-g.parquet") {
		t.Errorf("%+v", r)
	}
	// The standard input has a name too.
	if r := bglm(t, "y,x\n1,2\n7,3-4\n", "fit", "-", "-f", "y ~ x + nope"); r.code != 1 || !strings.Contains(r.stderr, "standard input: ") {
		t.Errorf("%+v", r)
	}
}

// Data may have columns by the names that DuckDB's readers give the file and the number of a row: a
// report reads them, and a fault is named by the file and row where it is.
func TestColumnsCalledAsReadersDo(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	fit := filepath.Join(dir, "f.parquet")
	rows := "SELECT (i * 7 % 5 > 2)::INT AS y, i * 37 % 11 / 4.0 AS Filename, i * 29 % 13 / 4.0 AS file_row_number, CASE WHEN i = 41 THEN -1 ELSE 1 END AS w FROM range(60) t(i)"
	for _, name := range []string{"d.parquet", "d.csv", "d.json"} {
		data := filepath.Join(dir, name)
		query(t, "COPY ("+rows+") TO '"+data+"'")
		ok(t, "fit", data, "-f", "y ~ filename + file_row_number", "-q", "--out", fit)
		ok(t, "report", data, "-b", fit, "-q", "--out", filepath.Join(dir, "r.html"))
		if r := bglm(t, "", "fit", data, "-f", "y ~ filename + file_row_number", "-o", "weight=w", "-q", "--out", fit); r.code != 1 || !strings.Contains(r.stderr, name+", row 42: ") {
			t.Errorf("%s: %d %s", name, r.code, r.stderr)
		}
	}
}

// Predictions are in the order of the rows, of which --columns none leaves nothing else to tell them
// by: also where the fits of groups are more than these.
func TestPredictionsInOrder(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data, few, fits, out := filepath.Join(dir, "rows.parquet"), filepath.Join(dir, "few.parquet"), filepath.Join(dir, "fits.parquet"), filepath.Join(dir, "out.csv")
	query(t, "COPY (SELECT i, i * 7919 % 400 AS g, i % 3 = 0 AS y, i % 7 / 3.0 AS x FROM range(2000) t(i)) TO '"+data+"'")
	query(t, "COPY (SELECT * FROM '"+data+"' WHERE i < 50) TO '"+few+"'")
	for _, offset := range []string{"0", "x"} {
		ok(t, "fit", data, "-f", "y ~ x", "--group", "g", "-m", "laplace", "-o", "prior_variance=1", "-o", "offset="+offset, "--out", fits, "-q")
		ok(t, "predict", few, "-b", fits, "--columns", "i", "--out", out, "-q")
		if n := queried(t, "SELECT count(*) FILTER (i <> k) FROM (SELECT i, row_number() OVER () - 1 AS k FROM '"+out+"')"); n != 0 {
			t.Errorf("offset %s: %v of 50 rows are not where they were", offset, n)
		}
	}
}

// Odd but whole files are read as they were.
func TestWholeCSV(t *testing.T) {
	kerneltest.Slow(t)
	for name, text := range map[string]string{
		"no last line break":    "y,x\n1,2\n0,3\n1,4",
		"notes above":           "made by hand\n\ny,x\n1,2\n0,3\n1,4\n",
		"semicolons":            "y;x\n1;2\n0;3\n1;4\n",
		"quoted comma in head":  "y,x,\"a,b\"\n1,2,3\n0,3,4\n1,4,5\n",
		"line breaks in quotes": "y,x,t\n1,2,\"a\nb\"\n0,3,\"c, \"\"d\"\"\"\n1,4,e",
		"Windows":               "y,x\r\n1,2\r\n0,3\r\n1,4\r\n",
		"byte order mark":       "\ufeffy,x\n1,2\n0,3\n1,4\n",
	} {
		f := file(t, "rows.csv", text)
		if r := bglm(t, "", "fit", f, "-f", "y ~ x", "--json", "--out", f+".parquet"); r.code != 0 || !strings.Contains(r.stdout, `"n": 3`) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// Characters of globs in names are part of the names.
	dir := t.TempDir()
	one, two := filepath.Join(dir, "a[1].csv"), filepath.Join(dir, "a1.csv")
	if err := errors.Join(os.WriteFile(one, []byte("y,x\n1,2\n0,3\n"), 0o600), os.WriteFile(two, []byte("y,x\n1,2\n0,3\n1,3\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if r := ok(t, "fit", one, "-f", "y ~ x", "--json", "--out", filepath.Join(dir, "b.parquet")); !strings.Contains(r.stdout, `"n": 2`) {
		t.Errorf("%s was read in the place of %s: %s", two, one, r.stdout)
	}
	if err := os.WriteFile(one, []byte("y,x\n1,2\n7,3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := bglm(t, "", "fit", one, "-f", "y ~ x"); r.code != 1 || !strings.Contains(r.stderr, one+", row 2: ") {
		t.Errorf("%+v", r)
	}
}

// A predict that is killed leaves nothing that the next glob matches, and the
// next predict cleans up.
func TestKilledPredict(t *testing.T) {
	dir := t.TempDir()
	data, beliefs, out := filepath.Join(dir, "rows.parquet"), filepath.Join(dir, "b.json"), filepath.Join(dir, "s.parquet")
	query(t, "COPY (SELECT i % 2 AS y, 'a' || i % 50 AS ad, 'b' || i % 77 AS b FROM range(1500000) t(i)) TO '"+data+"'")
	ok(t, "fit", data, "--where", "random() < 0.001", "-f", "y ~ ad + b", "--out", beliefs, "-q")
	args := []string{"predict", "-b", beliefs, "-o", "family=bernoulli", "-f", "y ~ ad + b", data, "--dist", "--out", out, "-q"}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), beMain+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hidden := func() []string {
		var out []string
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if files.IsTemp(e.Name()) {
				out = append(out, e.Name())
			}
		}
		return out
	}
	written := func() bool { // by the database: what only holds the name is empty
		names := hidden()
		if len(names) == 0 {
			return false
		}
		i, err := os.Stat(filepath.Join(dir, names[0]))
		return err == nil && i.Size() > 0
	}
	for began := time.Now(); !written() && time.Since(began) < time.Minute; {
		if _, err := os.Stat(out); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	cmd.Process.Kill()
	if cmd.Wait() == nil {
		t.Skip("the machine was too fast for the kill")
	}
	if len(hidden()) != 1 {
		t.Errorf("left: %v", hidden())
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "*.parquet")); len(found) != 1 {
		t.Errorf("%v look like data", found)
	}
	ok(t, "predict", "-b", beliefs, "-o", "family=bernoulli", "-f", "y ~ ad + b", data, "--where", "ad = 'a1'", "--out", out, "-q")
	if len(hidden()) > 0 {
		t.Errorf("not cleaned up: %v", hidden())
	}
}

// --csv-safe: text that a spreadsheet would run gets an apostrophe, in cells and in
// the header; numbers and other text stay.
func TestCSVSafe(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	data, out := filepath.Join(dir, "rows.parquet"), filepath.Join(dir, "out.csv")
	const rows = `SELECT i % 2 AS y, -i AS n, -i / 2 AS d, (-i)::DECIMAL(5, 1) AS dec, s, s AS "=2+3", [s] AS l, '3 days'::INTERVAL AS iv, s::ENUM('=1+1', '+1', '-z', '@x', E'\t=1', E'\r=1', 'x=1', '') AS e, s::BLOB AS bl
		FROM (VALUES (1, '=1+1'), (2, '+1'), (3, '-z'), (4, '@x'), (5, E'\t=1'), (6, E'\r=1'), (7, 'x=1'), (8, '')) t(i, s)`
	query(t, "COPY ("+rows+") TO '"+data+"'")
	ok(t, "fit", data, "--y", "y", "--x", "{n: n, s: s}", "--out", filepath.Join(dir, "b.parquet"), "-q")
	predict := []string{"predict", "-b", filepath.Join(dir, "b.parquet"), data, "--out", out, "-q"}
	for _, safe := range []bool{false, true} {
		args := predict
		if safe {
			args = append(args, "--csv-safe")
		}
		ok(t, args...)
		fromFile, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		args = []string{"sql", "--mode", "csv", "-c", "FROM '" + data + "'"}
		if safe {
			args = append(args, "--csv-safe")
		}
		for name, text := range map[string]string{"predict": string(fromFile), "sql": ok(t, args...).stdout} {
			for _, s := range []string{"=1+1", "+1", "-z", "@x", "\t=1"} {
				if got := strings.Contains(text, ",'"+s) && strings.Contains(text, ",'=2+3,"); got != safe {
					t.Errorf("%s, safe %v: an apostrophe before %q is %v\n%s", name, safe, s, got, text)
				}
				if safe && strings.Contains(text, ","+s+",") {
					t.Errorf("%s: %q stands in\n%s", name, s, text)
				}
			}
			if !strings.Contains(text, ",-1,-0.5,-1.0,") || !strings.Contains(text, ",x=1,x=1,['x=1'],") {
				t.Errorf("%s, safe %v: others have changed:\n%s", name, safe, text)
			}
		}
	}
	// Beliefs, whose features hold what the data hold.
	r := ok(t, "fit", data, "--y", "y", "--x", "MAP {s: 1}", "--csv-safe", "-q")
	if !strings.Contains(r.stdout, "\n'=1+1,") || !strings.Contains(r.stdout, "\nx=1,") {
		t.Errorf("%s", r.stdout)
	}
	if r := bglm(t, "", "fit", data, "--y", "y", "--x", "{n}", "--csv-safe", "--out", filepath.Join(dir, "o.parquet")); r.code != exitUsage || !strings.Contains(r.stderr, "--csv-safe") {
		t.Errorf("%+v", r)
	}
}

// A file with the bytes of one that the ledger has is not learnt again, whatever it
// is called.
func TestCopiesAreLearntOnce(t *testing.T) {
	data := rowsFile(t, "rows.parquet")
	dir, files := parts(t, data)
	db := filepath.Join(dir, "m.duckdb")
	fit := func() result {
		return ok(t, "fit", "--data", filepath.Join(dir, "day-*.parquet"), "--incremental", "--out", db, "-f", "y ~ ad + x", "--json")
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	same := filepath.Join(dir, "day-0 again.parquet")
	if err := os.WriteFile(same, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r := fit()
	if !strings.Contains(r.stdout, `"n": 6000`) || !strings.Contains(r.stdout, `"files": 6`) || !strings.Contains(r.stdout, `"copies": 1`) || !strings.Contains(r.stderr, "learnt already: left out") {
		t.Errorf("a copy: %s%s", r.stdout, r.stderr)
	}
	link := filepath.Join(dir, "day-9.parquet")
	if err := os.Symlink(files[3], link); err != nil {
		t.Skip(err)
	}
	r = fit()
	if !strings.Contains(r.stdout, `"n": 6000`) || !strings.Contains(r.stderr, link+" holds what "+files[3]+" held") {
		t.Errorf("a link: %s%s", r.stdout, r.stderr)
	}
	if r = fit(); strings.Contains(r.stdout, "copies") || r.stderr != "" {
		t.Errorf("once more: %s%s", r.stdout, r.stderr)
	}
}

// Control characters of arguments, names, values and files do not reach the terminal
// as they are.
func TestNoControlCharacters(t *testing.T) {
	const esc = "\x1b]0;owned\x07\x1b[31m\u009b31m\u202e"
	dir := filepath.Join(t.TempDir(), "d"+esc+"\nfit: fine")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	data, out := filepath.Join(dir, "rows.csv"), filepath.Join(dir, "out.parquet")
	if err := os.WriteFile(data, []byte("y,x\n1,a"+esc+"\n0,b\n7,c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"fit", data, "-f", "y ~ x"},
		{"fit", data, "-f", "y ~ x", "--where", "y < 2", "--out", out},
		{"fit", data, "-f", "y ~ nope" + esc, "--out", out},
		{"fit", data, "-f", "y ~ nope", "--out", out},
		{"fit", data, "-f", "y ~ x", "--out", filepath.Join(dir, "no folder", "x.csv")},
		{"fit", data, "-f", "y ~ x", "--method", esc},
		{"fit", data, "-f", "y ~ x", "--option", esc + "=1"},
		{"fit", data, "-f", "y ~ x", "--option", "link=" + esc},
		{"fit", data + ".none.csv", "-f", "y ~ x"},
		{"predict", "-b", data, data, "--out", out},
		{"merge", data, out},
		{"report", "-b", data},
		{"evaluate", data, "--y", esc, "--p", "x"},
		{"--" + esc},
		{esc},
		{"sql", esc},
		{"sql", "-c", "SELECT '" + esc + "' AS a, 1 AS \"" + esc + "\""},
		{"sql", "-c", "SELECT " + esc},
		{"sql", "-c", "SELECT error('" + esc + "')"},
		{"sql", "--db", filepath.Join(dir, "none", "x.duckdb")},
	} {
		r := bglm(t, "", args...)
		if text := r.stdout + r.stderr; strings.ContainsAny(text, "\x1b\x07\u009b\u202e") || strings.Contains(text, "\nfit: fine") {
			t.Errorf("%q: %q", args, text)
		}
	}
}

// Numbers with words for no value among them, in every command that reads a CSV file.
func TestWordsAmongNumbers(t *testing.T) {
	kerneltest.Slow(t)
	text := func(y, a string) string {
		b := strings.Builder{}
		b.WriteString("y,a,b\n")
		for i := range 100 {
			cells := []string{fmt.Sprint(i % 2), fmt.Sprint(i % 17), fmt.Sprint(i % 5)}
			if i == 50 {
				cells[0], cells[1] = cmp.Or(y, cells[0]), cmp.Or(a, cells[1])
			} else if i == 60 && a != "" {
				cells[1] = "-"
			}
			b.WriteString(strings.Join(cells, ",") + "\n")
		}
		return b.String()
	}
	good, words, responses := file(t, "good.csv", text("", "")), file(t, "words.csv", text("", "NA")), file(t, "responses.csv", text("NA", ""))
	path := func(n string) string { return filepath.Join(filepath.Dir(good), n) }
	ok(t, "fit", good, "-f", "y ~ a + b", "--out", path("f.parquet"), "-q")
	ok(t, "fit", good, "-f", "y ~ b:a", "--out", path("g.parquet"), "-q")
	how := "its texts are numbers but for '-', 'NA'; TRY_CAST(a AS DOUBLE), or nullstr = ['-', 'NA'] where a CSV file is read"
	for _, c := range []struct {
		want string
		args []string
	}{
		{how, []string{"predict", "-b", path("f.parquet"), words, "--out", path("p.csv")}},
		{how, []string{"evaluate", "-b", path("f.parquet"), words}},
		{how, []string{"report", "-b", path("f.parquet"), words, "--out", path("r.html")}},
		{how, []string{"fit", words, "-f", "y ~ a + b", "--prior", path("f.parquet"), "--out", path("h.parquet")}},
		{how, []string{"predict", "-b", path("g.parquet"), words, "--out", path("p.csv")}},
		{"as in TRY_CAST(y AS DOUBLE), or nullstr = 'NA'", []string{"fit", responses, "-f", "y ~ a", "--out", path("h.parquet")}},
		{"as in TRY_CAST(y AS DOUBLE), or nullstr = 'NA'", []string{"fit", responses, "-f", "y ~ a", "-o", "family=gaussian", "--out", path("h.parquet")}},
		{"y is VARCHAR; allowed: a number; its texts are numbers but for 'NA'; TRY_CAST(y AS DOUBLE)", []string{"evaluate", "-b", path("f.parquet"), responses}},
	} {
		if r := bglm(t, "", c.args...); r.code != 1 || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%v: %+v; want %q", c.args, r, c.want)
		}
	}
	if out := ok(t, "fit", words, "-f", "y ~ b:a", "--out", path("w.parquet")).stdout; !strings.Contains(out, "column a was learnt as levels: "+how) {
		t.Errorf("the interaction: %s", out)
	}
}

// A database that is written keeps the tables of others: those of bglm's names are an error before
// anything is fitted, and stay. It may be the one that is read; a second run replaces what the first
// has made.
func TestTablesOfOthers(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	rows := "SELECT i, i * 7 % 5 > 2 AS b, i * 37 % 11 AS x FROM range(60) t(i)"
	query(t, "COPY ("+rows+") TO '"+path("d.parquet")+"'")
	for _, made := range []string{"TABLE fits", "TABLE bglm_job", "VIEW beliefs", "TABLE beliefs", "TABLE Fits"} {
		db := path(strings.ReplaceAll(made, " ", "-") + ".duckdb")
		ok(t, "sql", "--db", db, "-c", "CREATE "+made+" AS SELECT 17 AS mine")
		name := strings.ToLower(strings.Fields(made)[1])
		if r := bglm(t, "", "fit", path("d.parquet"), "-f", "b ~ x", "-q", "--out", db); r.code != 1 || !strings.Contains(r.stderr, " "+name+" without the mark of bglm") {
			t.Errorf("%s: %+v", made, r)
		}
		if r := ok(t, "sql", "--db", db, "--mode", "csv", "-c", "FROM "+name); !strings.Contains(r.stdout, "17") {
			t.Errorf("%s: %s", made, r.stdout)
		}
	}
	db := path("d.duckdb")
	ok(t, "sql", "--db", db, "-c", "CREATE TABLE rows AS "+rows)
	for range 2 {
		ok(t, "fit", db, "--table", "rows", "-f", "b ~ x", "--out", db)
		ok(t, "predict", db, "--table", "rows", "-b", db, "--out", db)
	}
	if r := ok(t, "sql", "--db", db, "--mode", "csv", "-c", "SELECT count(*), count(prediction), (SELECT count(*) FROM rows), (SELECT count(*) FROM beliefs) FROM predictions"); !strings.Contains(r.stdout, "60,60,60,2") {
		t.Error(r.stdout)
	}
	ok(t, "sql", "--db", db, "-c", "CREATE OR REPLACE TABLE predictions AS SELECT 17 AS prediction")
	if r := bglm(t, "", "predict", db, "--table", "rows", "-b", db, "--out", db); r.code != 1 || !strings.Contains(r.stderr, "table predictions without the mark") {
		t.Errorf("%+v", r)
	}
	if r := bglm(t, "", "fit", db, "--table", "rows", "-f", "b ~ x", "--incremental", "--out", db); r.code != 2 || !strings.Contains(r.stderr, "it is read") {
		t.Errorf("%+v", r)
	}
	// What versions before the mark have made is known.
	ok(t, "sql", "--db", db, "-c", "COMMENT ON TABLE fits IS NULL; COMMENT ON TABLE bglm_job IS NULL; COMMENT ON VIEW beliefs IS NULL")
	ok(t, "fit", db, "--table", "rows", "-f", "b ~ x", "-q", "--out", db)
}

// What the standard input holds is known by its first bytes, packed or a database too; text that is
// no table is said without DuckDB's parameters, with the line that does not fit.
func TestStandardInputForms(t *testing.T) {
	kerneltest.Slow(t)
	dir := t.TempDir()
	path := func(n string) string { return filepath.Join(dir, n) }
	rows := "SELECT i, i * 7 % 5 > 2 AS b, i * 37 % 11 AS x FROM range(60) t(i)"
	query(t, "COPY ("+rows+") TO '"+path("d.csv")+"'; COPY ("+rows+") TO '"+path("d.csv.gz")+"'; COPY ("+rows+") TO '"+path("d.csv.zst")+"'; COPY ("+rows+") TO '"+path("d.json.gz")+"' (FORMAT json); COPY ("+rows+") TO '"+path("d.parquet")+"'")
	ok(t, "sql", "--db", path("d.duckdb"), "-c", "CREATE TABLE rows AS "+rows)
	read := func(name string) string {
		b, err := os.ReadFile(path(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, name := range []string{"d.csv", "d.csv.gz", "d.csv.zst", "d.json.gz", "d.parquet", "d.duckdb"} {
		if r := bglm(t, read(name), "fit", "-", "-f", "b ~ x", "--out", path("f.parquet")); r.code != 0 || !strings.Contains(r.stdout, "60 rows, 2 weights") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	ok(t, "fit", path("d.parquet"), "-f", "b ~ x", "-q", "--out", path("f.parquet"))
	stream := ok(t, "predict", path("d.parquet"), "-b", path("f.parquet"), "--columns", "b::INT AS b, x", "--out=-.arrows", "-q").stdout
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(stream)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	for _, engine := range []string{"duckdb", "arrow"} {
		for what, in := range map[string]string{"plain": stream, "packed": packed.String()} {
			for _, format := range [][]string{nil, {"--format", "arrow"}} {
				args := append([]string{"fit", "-", "-f", "b ~ x", "--engine", engine, "--out", path("f.parquet")}, format...)
				if r := bglm(t, in, args...); r.code != 0 || !strings.Contains(r.stdout, "60 rows, 2 weights") {
					t.Errorf("Arrow, %s, by %s, %v: %+v", what, engine, format, r)
				}
			}
		}
	}
	lines := strings.SplitAfter(read("d.csv"), "\n")
	for what, c := range map[string]struct {
		in, want string
		args     []string
		code     int
	}{
		"uneven":                {strings.Join(lines[:20], "") + "1,2\n" + strings.Join(lines[20:], ""), "standard input: damaged, or no CSV: its first line has 3 fields (i, b, x), but not every line has as many: line 21 has 2", nil, 1},
		"a header alone":        {"y,x,g,z,k,w,cnt,r,t,grp,b,cl\n", "standard input: a header (y, x, g, z, k, w, cnt, r, t, grp, b, cl) and no rows", nil, 1},
		"uneven, of many forms": {"y,x,g,z,k,w,cnt,r,t,grp,b,cl\n" + strings.Repeat("1,0.5,c,8.3,4,3,0,1.1,0,,false,A\n", 19) + "1,2,3\n" + strings.Repeat("0,0.5,c,8.3,4,3,0,1.1,0,v,true,B\n", 20), "line 21", nil, 1},
		"no rows":               {lines[0], "standard input: no rows to fit", nil, 1},
		"half packed":           {read("d.csv.gz")[:100], "standard input: ", nil, 1},
		"Parquet, by Arrow":     {read("d.parquet"), "Parquet cannot be read from a stream", []string{"--engine", "arrow"}, 2},
		"CSV, by Arrow":         {read("d.csv"), "the data are csv", []string{"--engine", "arrow"}, 2},
		"half packed, by Arrow": {packed.String()[:200], "standard input: ", []string{"--engine", "arrow"}, 1},
		"a number for Arrow":    {"", "--option weight: 3 is a number", []string{"--engine", "arrow", "-o", "weight=3"}, 2},
	} {
		r := bglm(t, c.in, append([]string{"fit", "-", "-f", "b ~ x", "--out", path("g.parquet")}, c.args...)...)
		if r.code != c.code || !strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr, "null_padding") {
			t.Errorf("%s: %+v", what, r)
		}
	}
	// A value that an option does not have is wrong usage under either engine, in the same words.
	var said []string
	for _, engine := range []string{"duckdb", "arrow"} {
		r := bglm(t, "", "fit", path("d.parquet"), "-f", "b ~ x", "--engine", engine, "-o", "prior_variance=much", "--out", path("g.parquet"))
		if r.code != 2 {
			t.Errorf("%s: %+v", engine, r)
		}
		said = append(said, r.stderr)
	}
	if said[0] != said[1] {
		t.Errorf("%q", said)
	}
	query(t, "COPY (SELECT 0 AS y, i AS x FROM range(30) t(i)) TO '"+path("zero.parquet")+"'")
	if r := ok(t, "fit", path("zero.parquet"), "-f", "y ~ x", "--out", path("g.parquet")); !strings.Contains(r.stdout, "its log loss 0.0000,") {
		t.Error(r.stdout)
	}
}
