package main

var lrglm = Section{
	Title:  "LR-GLM",
	Source: "Trippe, Huggins, Agrawal and Broderick (2019), and the poster.",
	Claims: []Claim{},
}
