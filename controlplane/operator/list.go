package operator

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
)

// listPage bounds the virtual clusters of one answer.
const listPage = 1000

// Listed is one virtual cluster as one replica knows it.
type Listed struct {
	VirtualCluster string `json:"virtual_cluster"` // name, "" if the description in etcd is invalid
	ClusterID      string `json:"cluster_id"`      // "" before it is known
	Source         string `json:"source"`          // settings or etcd
	State          string `json:"state"`           // active, suspended or deleted; "" if the description in etcd is invalid
	Owner          *Owner `json:"owner"`           // null if there is none
	Fault          string `json:"fault,omitempty"` // why the virtual cluster is not served, or not by this replica
}

// page is an answer of the list.
type page struct {
	Clusters []Listed `json:"clusters"`
	Next     string   `json:"next,omitempty"` // value of after for the next page, "" on the last one
}

// cursor returns the position of a virtual cluster in the list. No name has a slash.
func (l *Listed) cursor() string { return l.VirtualCluster + "/" + l.ClusterID }

func compareListed(a, b *Listed) int {
	return cmp.Or(strings.Compare(a.VirtualCluster, b.VirtualCluster), strings.Compare(a.ClusterID, b.ClusterID))
}

// opensAll reports whether the key of a call opens all virtual clusters. If not, it refuses the call.
func (c *Config) opensAll(w http.ResponseWriter, r *http.Request) bool {
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if c.Open("", key, false) {
		return true
	}
	refuse(w, http.StatusUnauthorized, errWrongKey)
	return false
}

// list answers with a page of all virtual clusters.
func (c *Config) list(w http.ResponseWriter, r *http.Request) {
	if !c.opensAll(w, r) {
		return
	}
	var after Listed
	after.VirtualCluster, after.ClusterID, _ = strings.Cut(r.URL.Query().Get("after"), "/")
	all := slices.DeleteFunc(c.List(), func(l Listed) bool { return r.URL.Query().Has("after") && compareListed(&l, &after) <= 0 })
	slices.SortFunc(all, func(a, b Listed) int { return compareListed(&a, &b) })
	answer := page{Clusters: all}
	if len(all) > listPage {
		answer.Clusters, answer.Next = all[:listPage], all[listPage-1].cursor()
	}
	encode(w, answer)
}
