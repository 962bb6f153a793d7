package main

var zoeter = Section{
	Title:  "Bayesian generalized linear models in a terabyte world",
	Source: "Zoeter (2007).",
	Claims: []Claim{},
}
