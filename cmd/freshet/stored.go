package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/freshet-io/freshet/internal/generation"
	"github.com/freshet-io/freshet/objstore/probe"
)

// nameStored puts the settings in front of an error that says what is wrong where they point to: metadata names the place of the
// metadata log, bucket the object store, each as "--setting value" or "" if there is none. Other errors stay as they are.
func nameStored(err error, metadata, bucket string) error {
	var places []string
	switch {
	case errors.Is(err, probe.ErrReplaces):
		places = []string{bucket}
	case errors.Is(err, generation.ErrOther):
		places = []string{metadata, bucket}
	}
	places = slices.DeleteFunc(places, func(place string) bool { return place == "" })
	if len(places) == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", strings.Join(places, ", "), err)
}
