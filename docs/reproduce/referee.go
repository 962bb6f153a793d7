package main

var referee = Section{
	Title:  "Against Hamiltonian Monte Carlo",
	Source: "Means and standard deviations of EP, Laplace and the others against long NUTS chains of bglm's own sampler.",
	Claims: []Claim{},
}
