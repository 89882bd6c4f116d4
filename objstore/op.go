package objstore

import "fmt"

// Op is one of the bucket's operations, as meters, faults and latencies name them.
type Op uint8

// The operations, in the order of the interface's methods.
const (
	OpPut Op = iota
	OpGet
	OpHead
	OpList
	OpDelete
	OpNow
	NumOps
)

var opNames = [NumOps]string{"put", "get", "head", "list", "delete", "now"}

// String gives the operation's name in lower case.
func (o Op) String() string {
	if o < NumOps {
		return opNames[o]
	}
	return fmt.Sprintf("op(%d)", uint8(o))
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
