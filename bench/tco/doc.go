// Package tco computes what a stream costs a month: the bills that WarpStream and AutoMQ have published, from their
// unit prices and by their own arithmetic, and Freshet's bill for the same workloads or for any other.
//
// Every line carries its formula with the numbers put in, so that it can be checked with a pocket calculator: quantities
// are rounded to what is shown before they are multiplied. A published figure stands beside the computed one, and where
// they differ the line says why. What a source gives without what it is made from is carried as given, and marked.
//
// Money is decimal throughout. GiB are 2^30 bytes; Amazon's "GB" of storage are too.
package tco
