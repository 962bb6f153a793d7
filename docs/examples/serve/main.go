// Command serve is an example of a service around package score: it predicts from a
// model that goes on learning, without a database.
//
//	go run ./docs/examples/serve -model beliefs.parquet
//	curl -d '{"rows": [{"names": ["site=a", "hour"], "values": [1, 17]}]}' localhost:8080/score
//	curl -d '{"rows": [{"names": ["site=a", "hour"], "values": [1, 17], "y": 1}]}' localhost:8080/learn
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/score"
)

func main() {
	address := flag.String("address", "localhost:8080", "where to listen")
	model := flag.String("model", "", "belief table in Parquet to start from; empty is the prior")
	rows := flag.Int("rows", 1000, "rows learnt between two snapshots")
	interval := flag.Duration("interval", time.Second, "longest time that a row waits for a snapshot")
	features := flag.Int("max-features", 1_000_000, "features that may be learnt")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, *address, *model, *features, score.Publishing{Rows: *rows, Interval: *interval}); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, model string, features int, when score.Publishing) error {
	m := &kernels.Model{MaxFeatures: features}
	if model != "" {
		f, err := arrowio.ReadParquetFile(model, nil)
		if err != nil {
			return err
		}
		m.Start, m.NoIntercept, m.HashBits = f, !f.Intercept, f.HashBits
	}
	u, err := score.NewUpdater(m, when)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return serve(ctx, l, u)
}

// serve answers on l until ctx ends, then lets requests under way finish.
func serve(ctx context.Context, l net.Listener, u *score.Updater) error {
	s := &http.Server{Handler: handler(u), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		limit, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		ended <- s.Shutdown(limit)
	}()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}

const bodyLimit = 1 << 20 // bytes of a request

// row is a row in a request. A value that is null is missing.
type row struct {
	Names  []string   `json:"names"`
	Values []*float64 `json:"values,omitempty"`
	Offset float64    `json:"offset,omitempty"`
	Y      *float64   `json:"y,omitempty"`
	Weight *float64   `json:"weight,omitempty"`
}

func (r *row) row() score.Row {
	out := score.Row{Names: r.Names, Offset: r.Offset}
	for _, v := range r.Values {
		x := math.NaN()
		if v != nil {
			x = *v
		}
		out.Values = append(out.Values, x)
	}
	return out
}

type request struct {
	Rows []row `json:"rows"`
}

func handler(u *score.Updater) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /score", func(w http.ResponseWriter, r *http.Request) {
		var in request
		if !read(w, r, &in) {
			return
		}
		s := u.Snapshot() // one for all rows of the request
		out := make([]float64, len(in.Rows))
		for i, row := range in.Rows {
			p, err := s.Predict(row.row(), predict.Exact)
			if err != nil {
				refuse(w, http.StatusBadRequest, fmt.Errorf("row %d: %w", i+1, err))
				return
			}
			out[i] = p
		}
		write(w, map[string]any{"predictions": out, "n": s.Fit().N})
	})
	mux.HandleFunc("POST /learn", func(w http.ResponseWriter, r *http.Request) {
		var in request
		if !read(w, r, &in) {
			return
		}
		rows := make([]score.Observation, len(in.Rows))
		for i, row := range in.Rows {
			if row.Y == nil {
				refuse(w, http.StatusBadRequest, fmt.Errorf("row %d has no y", i+1))
				return
			}
			rows[i] = score.Observation{Row: row.row(), Y: *row.Y}
			if row.Weight == nil {
				continue
			}
			if rows[i].Weight = *row.Weight; !(*row.Weight > 0) {
				refuse(w, http.StatusBadRequest, fmt.Errorf("row %d has weight %v; allowed: numbers above 0", i+1, *row.Weight))
				return
			}
		}
		if err := u.Learn(context.WithoutCancel(r.Context()), rows...); err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		write(w, map[string]any{"learnt": len(rows)})
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		f := u.Snapshot().Fit()
		write(w, map[string]any{"n": f.N, "features": len(f.Beliefs), "status": f.Status})
	})
	return mux
}

// read decodes a request, or answers what is wrong with it.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more after the JSON value")
		}
	}
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Errorf("the body is over %d bytes", large.Limit))
	} else if err != nil {
		refuse(w, http.StatusBadRequest, err)
	}
	return err == nil
}

func refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}

func write(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(what)
}
