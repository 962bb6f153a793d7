package main

var niranjan = Section{
	Title:  "Sequential Bayesian computation of logistic regression models",
	Source: "Niranjan (1999).",
	Claims: []Claim{},
}
