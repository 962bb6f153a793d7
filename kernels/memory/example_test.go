package memory_test

import (
	"errors"
	"fmt"

	"github.com/bglm/bglm/kernels/memory"
)

// What is large asks first.
func ExampleReserve() {
	defer memory.SetLimit(memory.SetLimit(1 << 20))
	g, err := memory.Reserve(1<<10, "a small thing")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Release()
	_, err = memory.Reserve(1<<40, "a large thing")
	fmt.Println(errors.Is(err, memory.ErrLimit))
	// Output:
	// true
}
