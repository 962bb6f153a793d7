package argument_test

import (
	"fmt"

	"github.com/bglm/bglm/kernels/argument"
)

// A slip of the pen, said first as it stands and then by the name of a flag.
func ExampleWord() {
	err := argument.Word("link", "probt", []string{"logit", "probit"})
	fmt.Println(err)
	fmt.Println(err.Named("--link"))
	// Output:
	// link: found 'probt'; allowed: logit, probit; the nearest is probit
	// --link: found 'probt'; allowed: logit, probit; the nearest is probit
}
