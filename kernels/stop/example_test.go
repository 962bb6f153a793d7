package stop_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/bglm/bglm/kernels/stop"
)

// A long computation looks whether it is to end, however deep it is.
func Example() {
	work := func(ctx context.Context) (err error) {
		s := stop.Watch(ctx, 0)
		defer s.End(&err)
		for {
			s.Check() // leaves for End
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(errors.Is(work(ctx), context.Canceled))
	// Output:
	// true
}
