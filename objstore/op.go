package objstore

import "fmt"

// Op is one of the bucket's operations, as meters, faults and latencies name them.
type Op uint8

// The operations: the interface's methods, and those of its uploads.
const (
	OpPut Op = iota
	OpGet
	OpHead
	OpList
	OpDelete
	OpNow
	OpCreateUpload
	OpPutPart
	OpCompleteUpload
	OpAbortUpload
	OpListUploads
	NumOps
)

var opNames = [NumOps]string{
	"put", "get", "head", "list", "delete", "now",
	"create_upload", "put_part", "complete_upload", "abort_upload", "list_uploads",
}

// String gives the operation's name in lower case.
func (o Op) String() string {
	if o < NumOps {
		return opNames[o]
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// Writes tells whether the operation changes what is in the bucket.
func (o Op) Writes() bool {
	switch o {
	case OpPut, OpDelete, OpCreateUpload, OpPutPart, OpCompleteUpload, OpAbortUpload:
		return true
	default:
		return false
	}
}

// ParseOp gives the operation of that name.
func ParseOp(name string) (Op, error) {
	for i, n := range opNames {
		if n == name {
			return Op(i), nil
		}
	}
	return 0, fmt.Errorf("%q is no operation of a bucket", name)
}
