package file

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/freshet-io/freshet/objstore"
)

// List gives one page of objects in key order. It reads only directories that can hold keys of the page.
func (b *Bucket) List(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.Info, error) {
	if err := objstore.CheckLimit(limit); err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	l := &lister{root: b.dir, ctx: ctx, prefix: prefix, startAfter: startAfter, limit: limit}
	// The walk begins at the deepest directory that the prefix names whole. No key has a segment "..", or begins with
	// the directory of unfinished objects, so neither has a prefix that any key starts with.
	dir := prefix[:strings.LastIndexByte(prefix, '/')+1]
	if dir != "" && checkKey(strings.TrimSuffix(dir, "/")) != nil {
		return nil, ctx.Err()
	}
	if err := l.walk(dir); err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	return l.page, nil
}

// lister walks directories in the order of full keys and collects one page.
type lister struct {
	root       string
	ctx        context.Context
	prefix     string
	startAfter string
	limit      int
	page       []objstore.Info
}

// walk visits a directory, named with its trailing slash, "" for the top.
func (l *lister) walk(dir string) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(l.root, filepath.FromSlash(dir)))
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	// A directory sorts as its name with a slash, since that is how the keys in it go on: "a-b" < "a/b" < "a0".
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(sortName(a), sortName(b)) })
	for _, e := range entries {
		if len(l.page) == l.limit {
			return nil
		}
		if err := l.visit(e, dir+sortName(e)); err != nil {
			return err
		}
	}
	return nil
}

func (l *lister) visit(e fs.DirEntry, key string) error {
	if e.IsDir() {
		inPrefix := strings.HasPrefix(key, l.prefix) || strings.HasPrefix(l.prefix, key)
		allBefore := key <= l.startAfter && !strings.HasPrefix(l.startAfter, key)
		if !inPrefix || allBefore || key == tmpName+"/" {
			return nil
		}
		return l.walk(key)
	}
	if !strings.HasPrefix(key, l.prefix) || key <= l.startAfter {
		return nil
	}
	info, err := e.Info()
	if isMissing(err) {
		return nil // deleted meanwhile
	}
	if err != nil {
		return err
	}
	l.page = append(l.page, objstore.Info{Key: key, Size: info.Size(), Modified: info.ModTime()})
	return nil
}

func sortName(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}
