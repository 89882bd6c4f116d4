// Package price holds what object stores charge for requests. The meter computes live costs from it, and the cost model
// its bills, so that there is one table.
package price

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/freshet-io/freshet/objstore"
)

// Entry is one price as a provider lists it.
type Entry struct {
	Name   string
	USD    string // of one unit, decimal
	Unit   string
	Source string
	Note   string
}

// Where and when Entries were read.
const (
	Region = "us-east-1"
	Date   = "2025-04"
)

const (
	standardList = "Amazon S3 price list"
	expressFAQ   = "Amazon S3 FAQ, S3 Express One Zone, since April 2025"
)

// Entries are the prices of requests, and of what is charged by their bytes. PUT stands for PUT, COPY, POST and LIST,
// GET for GET and all others; DELETE and the abortion of an upload cost nothing.
var Entries = [...]Entry{
	{Name: "s3-put", USD: "0.000005", Unit: "PUT", Source: standardList},
	{Name: "s3-get", USD: "0.0000004", Unit: "GET", Source: standardList},
	{Name: "express-put", USD: "0.00000113", Unit: "PUT", Source: expressFAQ},
	{Name: "express-get", USD: "0.00000003", Unit: "GET", Source: expressFAQ},
	{Name: "express-upload", USD: "0.0032", Unit: "GB", Source: expressFAQ},
	{Name: "express-retrieval", USD: "0.0006", Unit: "GB", Source: expressFAQ},
}

// Charge is what a store counts to make its bill.
type Charge uint8

// The charges.
const (
	Put       Charge = iota // requests that write or list
	Get                     // requests that read
	Upload                  // bytes sent
	Retrieval               // bytes received
	NumCharges
)

var chargeNames = [NumCharges]string{"put", "get", "upload", "retrieval"}

// String gives the charge's name, as metrics have it.
func (c Charge) String() string {
	if c < NumCharges {
		return chargeNames[c]
	}
	return fmt.Sprintf("charge(%d)", uint8(c))
}

// Of gives the charge of a request, false if it costs nothing.
func Of(op objstore.Op) (Charge, bool) {
	switch op {
	case objstore.OpPut, objstore.OpList, objstore.OpCreateUpload, objstore.OpPutPart, objstore.OpCompleteUpload, objstore.OpListUploads:
		return Put, true
	case objstore.OpGet, objstore.OpHead, objstore.OpNow:
		return Get, true
	default: // DELETE, and the abortion of an upload
		return 0, false
	}
}

// Table is what one store charges: USD for a request, or for a byte.
type Table [NumCharges]float64

// gigabyte is what Amazon calls one.
const gigabyte = 1 << 30

// Standard is S3 Standard.
func Standard() Table { return Table{Put: usd("s3-put"), Get: usd("s3-get")} }

// Express is S3 Express One Zone, which charges for bytes too.
func Express() Table {
	return Table{
		Put: usd("express-put"), Get: usd("express-get"),
		Upload: usd("express-upload") / gigabyte, Retrieval: usd("express-retrieval") / gigabyte,
	}
}

// usd gives the price of an entry, which is there.
func usd(name string) float64 {
	for i := range Entries {
		if Entries[i].Name == name {
			if v, err := strconv.ParseFloat(Entries[i].USD, 64); err == nil {
				return v
			}
		}
	}
	panic("price: no entry " + name) // the table above has been broken
}

// Names of tables, as Parse takes them.
const (
	Auto       = "auto"
	S3Standard = "s3-standard"
	S3Express  = "s3-express"
	None       = "none"
)

// ErrInvalid is a specification of prices that cannot be read.
var ErrInvalid = errors.New("invalid prices")

// Parse reads which prices are meant: the name of a table, or prices in USD for 1000 requests and for a GiB, such as
// put=0.005,get=0.0004,upload=0.0032,retrieval=0.0006, of which those not named are 0. Auto (and "") goes by the bucket's
// URL: S3 Express for its directory buckets, S3 Standard for all others at s3://, nothing for directories and memory.
// Errors: ErrInvalid.
func Parse(spec, bucketURL string) (Table, error) {
	switch spec {
	case Auto, "":
		return ofBucket(bucketURL), nil
	case S3Standard:
		return Standard(), nil
	case S3Express:
		return Express(), nil
	case None:
		return Table{}, nil
	}
	var t Table
	for item := range strings.SplitSeq(spec, ",") {
		name, amount, ok := strings.Cut(strings.TrimSpace(item), "=")
		charge, known := chargeOf(name)
		v, err := strconv.ParseFloat(amount, 64)
		if !ok || !known || err != nil || v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
			return Table{}, fmt.Errorf("%w: %q: want %s, %s, %s or %s, or put=USD,get=USD for 1000 requests and upload=USD,retrieval=USD for a GiB",
				ErrInvalid, item, Auto, S3Standard, S3Express, None)
		}
		t[charge] = v / 1000
		if charge == Upload || charge == Retrieval {
			t[charge] = v / gigabyte
		}
	}
	return t, nil
}

func chargeOf(name string) (Charge, bool) {
	for c, n := range chargeNames {
		if n == name {
			return Charge(c), true
		}
	}
	return 0, false
}

// directoryBucket is how names of S3 Express's buckets end.
const directoryBucket = "--x-s3"

func ofBucket(rawURL string) Table {
	u, err := url.Parse(rawURL)
	switch {
	case err != nil || u.Scheme != "s3":
		return Table{}
	case strings.HasSuffix(u.Host, directoryBucket):
		return Express()
	default:
		return Standard()
	}
}
