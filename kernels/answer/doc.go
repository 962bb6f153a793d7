// Package answer turns a fit and rows into tables that answer common questions: how well the fit
// predicts rows that it has not seen (LOO, Compare), how a column affects the response (Effects),
// how certain it is if the model is wrong (Robust), whether its predictions resemble the data
// (Check, PIT) and which columns drive them (Drivers).
//
// Package predict answers for one row at a time; here rows are summed. A type absorbs batches of
// rows, can be merged with others of the same fit, and finally returns the result for all rows:
// only sums are kept, unless its comment says otherwise.
package answer
