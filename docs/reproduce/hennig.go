package main

var hennig = Section{
	Title:  "Probabilistic machine learning, lecture 14",
	Source: "Hennig (2020).",
	Claims: []Claim{},
}
