// Package special holds scalar functions that the standard library and gonum lack:
// the normal distribution function and its hazard in both tails, softplus and the
// logistic function, the gap e^x - 1 - x, the Wright omega function, log factorials.
//
// All functions are pure, allocate nothing, propagate NaN, and never panic.
// Relative accuracy is a few units in the last place unless a comment says otherwise;
// testdata/special holds the reference values (60-digit arithmetic).
package special
