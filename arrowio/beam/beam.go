// Package beam fits on a cluster by Apache Beam: a pipeline that reads Parquet files by row
// group, merges what the parts of the rows say with CombinePerKey, and writes belief tables.
// Its module is apart from bglm's because Beam's is large.
//
// Laplace's approximation takes several rounds, unrolled in one pipeline: a round is a pass
// over the rows around the fits of the round before, which come as a side input, and Newton's
// step. The result is that of bglm_laplace over all rows to rounding, whatever the parts. Expectation
// propagation takes the same rounds, and comes to the fit of bglm_ep with a full covariance.
// ADF takes one round: a fit of each part, multiplied with the prior counted once, exactly
// for Gaussian responses and to the accuracy of the parts' Gaussians for others.
//
// The programs of the workers are pure Go. A worker needs the files of the job under the same
// paths as all others.
package beam

import (
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/bglm/bglm/arrowio/beam/internal/fns"
	"github.com/bglm/bglm/arrowio/beam/parts"
)

// DefaultRounds is how many passes over the rows a pipeline of Laplace's approximation has, at
// most: six to nine were needed for flights, from nothing, and those after them read no rows.
// Expectation propagation and low-rank fits have MoreRounds more.
const DefaultRounds, MoreRounds = 10, 14

// Fit adds the fits of a job to a pipeline: a collection of KV<string, []byte>, the text of a
// group (arrowio.Groups.Key) and its fit (parts.DecodeIterate). rounds is for methods laplace,
// ep and lowrank, 0 is DefaultRounds; a fit that has not converged in so many says so in its status.
//
// Bytes moved: for each round, part and group a state, 4 p² bytes for p weights of laplace and ep, of lowrank
// 16 p l for l directions, and each fit (of lowrank with the state) to each part. Errors: those of Job.Check, and fewer than 0 rounds.
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

// Write adds to a pipeline that the fits of Fit are written to the file path, a belief table in
// Parquet, which bglm predict and SQL read, or to so many shards of it, path with -00000-of-00004 before its
// ending. It returns the names of the files. Each is written whole, by one worker.
func Write(s beam.Scope, job *parts.Job, fits beam.PCollection, path string, shards int) beam.PCollection {
	s = s.Scope("bglm.Write")
	dealt := beam.GroupByKey(s, beam.ParDo(s, &fns.ShardFn{Shards: shards}, fits))
	return beam.ParDo(s, &fns.WriteFn{Job: *job, Path: path, Shards: shards}, dealt)
}
