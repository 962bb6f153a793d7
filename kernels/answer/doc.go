// Package answer turns a fit and rows into the tables that people ask for: how well it
// predicts rows that it has not seen (LOO, Compare), what a column does to the response
// (Effects), how sure it is when the model is not true (Robust), whether its predictions look
// like the data (Check, PIT) and which columns move them (Drivers).
//
// Package predict answers for one row at a time; here rows are added up. A type takes
// batches of rows, is merged with others of the same fit, and says at the end what the rows
// come to: nothing but sums is kept, unless its comment says so.
package answer
