//go:build !race

package score_test

const raceDetector = false
