package objstore

import (
	"fmt"
	"maps"
	"slices"
)

// DeleteError is returned by Bucket.Delete if the store refused to delete the objects of some keys. All others are deleted.
type DeleteError struct {
	Failed map[string]error // by key; at least one
}

// NewDeleteError returns a *DeleteError of the failed keys, or nil if there are none.
func NewDeleteError(failed map[string]error) error {
	if len(failed) == 0 {
		return nil
	}
	return &DeleteError{Failed: failed}
}

// First returns the least failed key and its error.
func (e *DeleteError) First() (key string, err error) {
	key = slices.Min(slices.Collect(maps.Keys(e.Failed)))
	return key, e.Failed[key]
}

// Error returns the number of failed keys and the first one's error.
func (e *DeleteError) Error() string {
	key, err := e.First()
	return fmt.Sprintf("%d objects not deleted, the first is %s: %v", len(e.Failed), key, err)
}

// Unwrap returns the errors of the keys in any order.
func (e *DeleteError) Unwrap() []error { return slices.Collect(maps.Values(e.Failed)) }
