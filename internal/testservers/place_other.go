//go:build !linux

package testservers

import "errors"

// enter calls f: this system has no network namespaces.
func (p Place) enter(f func() error) error {
	if p.Namespace != "" {
		return errors.New("network namespaces are Linux's")
	}
	return f()
}
