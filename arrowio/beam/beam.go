// Package beam fits models on a cluster with Apache Beam: a pipeline reads Parquet files by row
// group, merges the states of parts of the rows with CombinePerKey, and writes belief tables. It is
// a module of its own because Beam's is large.
//
// Laplace's approximation takes several rounds, unrolled in one pipeline: a pass over the rows,
// expanded around the fits of the round before (a side input), and a Newton step. The result is that
// of bglm_laplace over all rows, up to rounding, however they are split. Expectation propagation
// takes the same rounds, and arrives at the fit of bglm_ep with a full covariance. ADF takes one
// round: the fits of the parts are multiplied with the prior counted once, exactly for Gaussian
// responses and to the accuracy of the parts' Gaussians for others.
//
// The workers' programs are pure Go. A worker needs the job's files under the same paths as all
// others.
package beam

import (
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/bglm/bglm/arrowio/beam/internal/fns"
	"github.com/bglm/bglm/arrowio/beam/parts"
)

// DefaultRounds is how many passes over the rows a pipeline of Laplace's approximation has at most:
// six to nine were needed for the flights data, starting from nothing, and later passes read no
// rows. Expectation propagation and low-rank fits have MoreRounds more.
const DefaultRounds, MoreRounds = 10, 14

// Fit adds the fits of a job to a pipeline: a collection of KV<string, []byte>, the text of a
// group (arrowio.Groups.Key) and its fit (parts.DecodeIterate). rounds is for methods laplace,
// ep and lowrank; 0 is DefaultRounds. The status of a fit says if it has not converged in so many.
//
// Bytes moved: for each round, part and group a state, of 4 p² bytes for p weights of laplace and
// ep and 16 p l for l directions of lowrank, and each fit (for lowrank with the state) to each
// part. Errors: those of Job.Check, and rounds below 0.
func Fit(s beam.Scope, job *parts.Job, rounds int) (beam.PCollection, error) {
	s = s.Scope("bglm.Fit")
	if rounds < 0 {
		return beam.PCollection{}, fmt.Errorf("rounds: found %d; allowed: 1 and more, 0 for %d", rounds, DefaultRounds)
	}
	if err := job.Check(); err != nil {
		return beam.PCollection{}, err
	}
	if rounds == 0 {
		rounds = DefaultRounds
		if job.Method == parts.EP || job.Method == parts.LowRank {
			rounds += MoreRounds
		}
	}
	splits := beam.Reshuffle(s, beam.ParDo(s, &fns.SplitFn{Job: *job}, beam.Impulse(s)))
	if job.Method == parts.ADF {
		rounds = 1
	}
	fits := beam.ParDo(s, &fns.NothingFn{}, beam.Impulse(s))
	for k := range rounds {
		s := s.Scope(fmt.Sprintf("round %d", k+1))
		states := beam.ParDo(s, &fns.PassFn{Job: *job, Round: k}, splits, beam.SideInput{Input: fits})
		merged := beam.CombinePerKey(s, &fns.MergeFn{Job: *job}, states)
		fits = beam.ParDo(s, &fns.SolveFn{Job: *job}, beam.CoGroupByKey(s, merged, fits))
	}
	return fits, nil
}

// Write adds to a pipeline the writing of the fits of Fit to the file path, a Parquet belief table
// for bglm predict and SQL, or to several shards of it, path with -00000-of-00004 before its
// extension. It returns the names of the files. One worker writes each file, atomically.
func Write(s beam.Scope, job *parts.Job, fits beam.PCollection, path string, shards int) beam.PCollection {
	s = s.Scope("bglm.Write")
	dealt := beam.GroupByKey(s, beam.ParDo(s, &fns.ShardFn{Shards: shards}, fits))
	return beam.ParDo(s, &fns.WriteFn{Job: *job, Path: path, Shards: shards}, dealt)
}
