package price_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/price"
)

func TestTables(t *testing.T) {
	require.Equal(t, price.Table{price.Put: 0.005 / 1000, price.Get: 0.0004 / 1000}, price.Standard())
	require.Equal(t, price.Table{0.00113 / 1000, 0.00003 / 1000, 0.0032 / (1 << 30), 0.0006 / (1 << 30)}, price.Express())
}

func TestOf_EveryOperation(t *testing.T) {
	free := map[objstore.Op]bool{objstore.OpDelete: true, objstore.OpAbortUpload: true}
	reads := map[objstore.Op]bool{objstore.OpGet: true, objstore.OpHead: true, objstore.OpNow: true}
	for op := range objstore.NumOps {
		charge, ok := price.Of(op)
		require.Equal(t, !free[op], ok, op)
		if ok {
			require.Equal(t, reads[op], charge == price.Get, op)
		}
	}
}

func TestParse(t *testing.T) {
	for spec, want := range map[string]price.Table{
		"none":                  {},
		"s3-standard":           price.Standard(),
		"s3-express":            price.Express(),
		"put=0.005,get=0.0004":  price.Standard(),
		"put=0.005, upload=1.0": {price.Put: 0.005 / 1000, price.Upload: 1.0 / (1 << 30)},
		"retrieval=2":           {price.Retrieval: 2.0 / (1 << 30)},
	} {
		got, err := price.Parse(spec, "s3://bucket")
		require.NoError(t, err, spec)
		require.InDeltaSlice(t, want[:], got[:], 1e-18, spec)
	}
	for _, spec := range []string{"put", "put=", "put=-1", "put=NaN", "put=Inf", "post=1", "s3", ",", "put=1,"} {
		_, err := price.Parse(spec, "s3://b")
		require.ErrorIs(t, err, price.ErrInvalid, spec)
	}
}

func TestParse_ByBucket(t *testing.T) {
	for url, want := range map[string]price.Table{
		"s3://bucket/prefix?region=eu-central-1":         price.Standard(),
		"s3://bucket--use1-az5--x-s3/p?region=us-east-1": price.Express(),
		"file:///data":    {},
		"mem://":          {},
		"":                {},
		"s3://%zz broken": {},
	} {
		for _, spec := range []string{"", "auto"} {
			got, err := price.Parse(spec, url)
			require.NoError(t, err)
			require.Equal(t, want, got, url)
		}
	}
}
