package main

import (
	"crypto/sha1"
	_ "embed"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

//go:embed peers.py
var program []byte

// peer is what a model of scikit-learn predicts of the rows of t.
type peer struct {
	name string
	p    []float64
}

// peers fits the rows of raw and t in scikit-learn, by the same folds. exposure is a column
// of raw that multiplies the mean, "" for none. There are none without a Python that has
// scikit-learn.
func (c *Context) peers(s *session, task, exposure string) ([]peer, error) {
	if c.Python == "" {
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "newcomer-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := s.write(dir, exposure); err != nil {
		return nil, err
	}
	kept, err := c.kept(dir, task)
	if err != nil {
		return nil, err
	}
	if kept != "" {
		if p, err := readPeers(kept); err == nil {
			return p, nil
		}
	}
	script := filepath.Join(dir, "peers.py")
	if err := os.WriteFile(script, program, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(c.Python, script, dir, task)
	cmd.Stderr = c.Log
	if _, err := cmd.Output(); err != nil {
		return nil, fmt.Errorf("scikit-learn: %w", err)
	}
	text, err := os.ReadFile(dir + "/predictions.csv")
	if err != nil {
		return nil, err
	}
	if kept != "" {
		if err := os.WriteFile(kept, text, 0o644); err != nil {
			return nil, err
		}
	}
	return readPeers(dir + "/predictions.csv")
}

// kept is the file that keeps the answer to what is in dir, "" where none is to be kept.
func (c *Context) kept(dir, task string) (string, error) {
	if c.Peers == "" {
		return "", nil
	}
	if err := os.MkdirAll(c.Peers, 0o755); err != nil {
		return "", err
	}
	h := sha1.New()
	h.Write([]byte(task))
	h.Write(program)
	for _, f := range []string{"rows.csv", "entries.csv"} {
		text, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil && !os.IsNotExist(err) {
			return "", err
		}
		h.Write(text)
	}
	return filepath.Join(c.Peers, fmt.Sprintf("%x.csv", h.Sum(nil)[:8])), nil
}

// write leaves raw and the folds of t in files for peers.py.
func (s *session) write(dir, exposure string) error {
	sparse, err := s.sparse()
	if err != nil {
		return err
	}
	fields := []string{"i", "fold", "CASE raw.y::VARCHAR WHEN 'true' THEN '1' WHEN 'false' THEN '0' ELSE raw.y::VARCHAR END AS y"}
	if sparse {
		if err := s.exec("COPY (SELECT i, f.feature, f.value FROM (SELECT i, unnest(features) AS f FROM raw)) TO '" + dir + "/entries.csv' (HEADER)"); err != nil {
			return err
		}
	} else {
		names, err := s.texts("SELECT column_name FROM (DESCRIBE raw) WHERE column_name NOT IN ('i', 'y')")
		if err != nil {
			return err
		}
		kinds, err := s.texts("SELECT CASE WHEN column_type IN ('VARCHAR', 'BOOLEAN', 'DATE') OR column_type LIKE 'ENUM%' THEN 'c' ELSE 'n' END FROM (DESCRIBE raw) WHERE column_name NOT IN ('i', 'y')")
		if err != nil {
			return err
		}
		for k, n := range names {
			if n == exposure {
				kinds[k] = "e"
			}
			fields = append(fields, "raw."+quote(n)+" AS "+quote(kinds[k]+":"+n))
		}
	}
	return s.exec("COPY (SELECT " + strings.Join(fields, ", ") + " FROM raw JOIN t USING (i) ORDER BY i) TO '" + dir + "/rows.csv' (HEADER)")
}

func readPeers(path string) ([]peer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s is empty", path)
	}
	out := make([]peer, len(lines[0]))
	for k, name := range lines[0] {
		out[k].name = name
		for _, l := range lines[1:] {
			v, err := strconv.ParseFloat(l[k], 64)
			if err != nil {
				return nil, err
			}
			out[k].p = append(out[k].p, v)
		}
	}
	return out, nil
}
