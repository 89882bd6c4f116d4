package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
)

// DefaultHealthTimeout bounds a health check as a whole, unless the caller says otherwise.
const DefaultHealthTimeout = 3 * time.Second

// maxReason bounds how much of an answer is read for its first line, in bytes.
const maxReason = 1 << 10

// CheckHealth requests target once and returns nil if the status is 2xx. Any other answer is an error with the status and
// the first line of the body. Redirects are not followed, and proxies are not used: the process checked is close by.
func CheckHealth(ctx context.Context, target string, timeout time.Duration) error {
	if u, err := url.Parse(target); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return usagef("URL %q: write it as http://127.0.0.1:8080/readyz", target)
	}
	if timeout <= 0 {
		return usagef("--timeout %s: set it to more than 0", timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return usagef("URL %q: %v", target, err)
	}
	client := http.Client{
		Transport:     &http.Transport{DialContext: new(net.Dialer).DialContext, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%s: no answer within %s", target, durationText(timeout))
		}
		var failed *url.Error // repeats the method and the URL
		if errors.As(err, &failed) {
			err = failed.Err
		}
		if foreign := foreignHTTP(ctx, "URL:", target, wantHealth); foreign != nil {
			return foreign
		}
		return fmt.Errorf("%s: %w", target, err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 == 2 {
		return nil
	}
	if reason := firstLine(response.Body); reason != "" {
		return fmt.Errorf("%s: %s: %s", target, response.Status, reason)
	}
	return fmt.Errorf("%s: %s", target, response.Status)
}

// firstLine returns the printable part of the first line of body, up to maxReason bytes. A body that breaks off counts as
// far as it came.
func firstLine(body io.Reader) string {
	line, _ := bufio.NewReader(io.LimitReader(body, maxReason)).ReadString('\n')
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, line))
}
