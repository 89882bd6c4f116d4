package merge

import (
	"errors"
	"fmt"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
)

// ErrPlan says that a plan is none that Run can carry out.
var ErrPlan = errors.New("plan cannot be merged by")

// CorruptError says that what is stored of an extent is not what it should be. Reading again does not help.
type CorruptError struct {
	Bundle   id.Bundle
	Key      string // of the object
	Position uint32 // of the batch in the object
	Offset   int64  // that the batch has, or should have
	Stored   uint32 // checksum that the batch has; both are 0 if it is not the checksum that is wrong
	Computed uint32 // checksum of the bytes read
	Reason   string
}

// Error tells all of it.
func (e *CorruptError) Error() string {
	checksums := ""
	if e.Stored != e.Computed {
		checksums = fmt.Sprintf(", checksum stored %08x, computed %08x", e.Stored, e.Computed)
	}
	return fmt.Sprintf("corrupt batch at %d of %s, offset %d: %s%s", e.Position, e.Key, e.Offset, e.Reason, checksums)
}

// UnreadableInputs implements runner.UnreadableInputs.
func (e *CorruptError) UnreadableInputs() job.Unreadable {
	return job.Unreadable{Bundles: []id.Bundle{e.Bundle}}
}

// MissingError is returned when the store does not have the objects of inputs. Either their extents have left the state since
// the plan was made, or something other than Freshet deleted the objects. MissingError wraps objstore.ErrNotFound.
type MissingError struct {
	Bundles []id.Bundle // at least one
}

// Error names the first bundle.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%d input objects are missing, first that of bundle %s", len(e.Bundles), e.Bundles[0])
}

// Unwrap returns objstore.ErrNotFound.
func (e *MissingError) Unwrap() error { return objstore.ErrNotFound }

// UnreadableInputs implements runner.UnreadableInputs.
func (e *MissingError) UnreadableInputs() job.Unreadable { return job.Unreadable{Bundles: e.Bundles} }
