package httpapi

import (
	"encoding/base64"
	"errors"
	"strings"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/registry"
)

// PageInput are the parameters of a list.
type PageInput struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"100" doc:"Maximum number of items."`
	Cursor string `query:"cursor" maxLength:"600" doc:"Value of next in the page before. Empty for the first page."`
}

// Page is a part of a list.
type Page[T any] struct {
	Items      []T    `json:"items" nullable:"false" doc:"Items of the page."`
	Next       string `json:"next,omitempty" doc:"Cursor of the next page. Absent on the last page."`
	Unreadable int    `json:"unreadable" doc:"Number of records of the list that the server cannot read. They are not among the items."`
}

type pageOutput[T any] struct{ Body Page[T] }

// errCursor is returned for a malformed cursor or that of another list.
var errCursor = errors.New("the cursor is malformed or of another list")

// cursor returns the cursor of the page of a list behind a key.
func cursor(list, key string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(list + "\n" + key))
}

// after returns the key in a cursor, "" for the first page. Error: errCursor.
func (p PageInput) after(list string) (string, error) {
	if p.Cursor == "" {
		return "", nil
	}
	text, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err != nil {
		return "", errCursor
	}
	of, key, ok := strings.Cut(string(text), "\n")
	if !ok || of != list || key == "" {
		return "", errCursor
	}
	return key, nil
}

// paginate returns a page of a list that is in order of its keys.
func paginate[R, T any](h *Handler, in PageInput, list string, all registry.List[R], key func(*R) string, show func(*R) (T, error)) (*pageOutput[T], error) {
	after, err := in.after(list)
	if err != nil {
		return nil, err
	}
	out := &pageOutput[T]{Page[T]{Items: []T{}, Unreadable: len(all.Faults)}}
	h.warn(list, all.Faults)
	last := ""
	for _, record := range all.Records {
		if key(record) <= after {
			continue
		}
		if len(out.Body.Items) == in.Limit {
			out.Body.Next = cursor(list, last)
			break
		}
		item, err := show(record)
		if err != nil {
			return nil, err
		}
		out.Body.Items = append(out.Body.Items, item)
		last = key(record)
	}
	return out, nil
}

// warn logs records that cannot be read.
func (h *Handler) warn(list string, faults []error) {
	if len(faults) > 0 {
		h.cfg.Logger.Warn("registry records cannot be read", zap.String("list", list), zap.Error(errors.Join(faults...)))
	}
}
