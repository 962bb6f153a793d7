package main

import "github.com/bglm/bglm/cmd/internal/quote"

func quoteName(s string) string        { return quote.Name(s) }
func quoteText(s string) string        { return quote.Text(s) }
func quoteNames(names []string) string { return quote.Names(names) }
