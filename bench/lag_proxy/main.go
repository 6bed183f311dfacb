// A proxy in front of an S3 server that adds latency to each request, and logs it. bench/object-stores builds and starts it.
//
//	lag_proxy SERVER_ADDRESS
//
// It listens on a free port of 127.0.0.1, prints that port, and ends when its standard input is closed. Each client
// connection has its own connection to the server; heads are handed on as they are, so that signatures stay valid. Targets
// that begin with /_lag are for the proxy itself:
//
//	/_lag/wait?us=N    waits N microseconds before each later request is handed on
//	/_lag/log          the requests since the last call, one line of JSON each, and forgets them
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const maxHead = 1 << 20

// entry is one request. Times are microseconds since the proxy started.
type entry struct {
	Method    string `json:"method"`
	Target    string `json:"target"`
	Range     string `json:"range,omitempty"`
	Begin     int64  `json:"begin"`
	End       int64  `json:"end"`
	Status    int    `json:"status"`
	Sent      int64  `json:"sent"`     // bytes of the request's body
	Received  int64  `json:"received"` // bytes of the answer's body
	InFlight  int64  `json:"in_flight"`
	Connected bool   `json:"connected"` // the first request of its connection
}

var (
	server   string
	started  = time.Now()
	waitTime atomic.Int64 // nanoseconds
	inFlight atomic.Int64
	mutex    sync.Mutex
	entries  []*entry // guarded by mutex
)

// head is the first line and the headers of a message, with the bytes as they came.
type head struct {
	raw    []byte
	first  []string
	fields map[string]string // names in lower case
}

func readHead(from *bufio.Reader) (*head, error) {
	var raw bytes.Buffer
	made := &head{fields: map[string]string{}}
	for {
		line, err := from.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		raw.Write(line)
		if raw.Len() > maxHead {
			return nil, fmt.Errorf("a head of more than %d bytes", maxHead)
		}
		text := strings.TrimRight(string(line), "\r\n")
		switch {
		case made.first == nil:
			if made.first = strings.SplitN(text, " ", 3); len(made.first) < 2 {
				return nil, fmt.Errorf("not HTTP: %q", text)
			}
		case text == "":
			made.raw = raw.Bytes()
			return made, nil
		default:
			name, value, _ := strings.Cut(text, ":")
			made.fields[strings.ToLower(name)] = strings.TrimSpace(value)
		}
	}
}

// copyBody hands on a body and returns the number of its bytes without those of chunked encoding. untilEnd: a body without a
// length ends with the connection.
func copyBody(to io.Writer, from *bufio.Reader, of *head, untilEnd bool) (int64, error) {
	if strings.EqualFold(of.fields["transfer-encoding"], "chunked") {
		return copyChunked(to, from)
	}
	if text, isThere := of.fields["content-length"]; isThere {
		length, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, err
		}
		return io.CopyN(to, from, length)
	}
	if untilEnd {
		return io.Copy(to, from)
	}
	return 0, nil
}

func copyChunked(to io.Writer, from *bufio.Reader) (int64, error) {
	total := int64(0)
	for {
		line, err := from.ReadString('\n')
		if err != nil {
			return total, err
		}
		size, err := strconv.ParseInt(strings.TrimSpace(strings.SplitN(line, ";", 2)[0]), 16, 64)
		if err != nil {
			return total, err
		}
		if _, err := io.WriteString(to, line); err != nil {
			return total, err
		}
		if size == 0 {
			break
		}
		copied, err := io.CopyN(to, from, size+2) // with the line's end after it
		total += max(copied-2, 0)
		if err != nil {
			return total, err
		}
	}
	for { // trailers
		line, err := from.ReadString('\n')
		if err != nil {
			return total, err
		}
		if _, err := io.WriteString(to, line); err != nil || strings.TrimSpace(line) == "" {
			return total, err
		}
	}
}

func max(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

// upstream is the connection to the server that belongs to one client connection.
type upstream struct {
	connection net.Conn
	reader     *bufio.Reader
}

func (u *upstream) open() error {
	connection, err := net.Dial("tcp", server)
	if err == nil {
		u.connection, u.reader = connection, bufio.NewReaderSize(connection, 64<<10)
	}
	return err
}

func (u *upstream) close() {
	if u.connection != nil {
		u.connection.Close()
		u.connection = nil
	}
}

// ask sends a request and returns the head of its answer. A server may have closed an idle connection: one more is tried then.
func (u *upstream) ask(request []byte) (*head, error) {
	for isNew := false; ; isNew = true {
		if u.connection == nil {
			if err := u.open(); err != nil {
				return nil, err
			}
			isNew = true
		}
		_, err := u.connection.Write(request)
		if err == nil {
			var answer *head
			for answer, err = readHead(u.reader); err == nil && answer.first[1] == "100"; {
				answer, err = readHead(u.reader)
			}
			if err == nil {
				return answer, nil
			}
		}
		u.close()
		if isNew {
			return nil, err
		}
	}
}

func serve(client net.Conn) {
	defer client.Close()
	reader := bufio.NewReaderSize(client, 64<<10)
	writer := bufio.NewWriterSize(client, 64<<10)
	up := &upstream{}
	defer up.close()
	for isFirst := true; ; isFirst = false {
		request, err := readHead(reader)
		if err != nil || len(request.first) < 3 {
			return
		}
		if strings.HasPrefix(request.first[1], "/_lag") {
			control(client, request.first[1])
			return
		}
		if !forward(client, reader, writer, up, request, isFirst) {
			return
		}
	}
}

// forward returns whether the client's connection can be used again.
func forward(client net.Conn, reader *bufio.Reader, writer *bufio.Writer, up *upstream, request *head, isFirst bool) bool {
	now := &entry{Method: request.first[0], Target: request.first[1], Range: request.fields["range"],
		Begin: time.Since(started).Microseconds(), InFlight: inFlight.Add(1), Connected: isFirst}
	mutex.Lock()
	entries = append(entries, now)
	mutex.Unlock()
	var status int
	var sent, received int64
	defer func() {
		inFlight.Add(-1)
		mutex.Lock()
		now.Status, now.Sent, now.Received, now.End = status, sent, received, time.Since(started).Microseconds()
		mutex.Unlock()
	}()
	whole := request.raw
	if strings.EqualFold(request.fields["expect"], "100-continue") {
		if _, err := io.WriteString(client, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return false
		}
	}
	if request.fields["content-length"] != "" || request.fields["transfer-encoding"] != "" {
		var body bytes.Buffer
		var err error
		if sent, err = copyBody(&body, reader, request, false); err != nil {
			return false
		}
		whole = append(whole, body.Bytes()...)
	}
	time.Sleep(time.Duration(waitTime.Load()))
	answer, err := up.ask(whole)
	if err != nil {
		log.Printf("%s %s: %v", now.Method, now.Target, err)
		return false
	}
	status, _ = strconv.Atoi(answer.first[1])
	writer.Write(answer.raw)
	hasBody := now.Method != "HEAD" && status != 204 && status != 304
	if hasBody {
		received, err = copyBody(writer, up.reader, answer, true)
	}
	if writer.Flush() != nil || err != nil {
		return false
	}
	_, hasLength := answer.fields["content-length"]
	isClosed := strings.EqualFold(answer.fields["connection"], "close")
	if isClosed {
		up.close()
	}
	return !isClosed && !strings.EqualFold(request.fields["connection"], "close") &&
		(!hasBody || hasLength || answer.fields["transfer-encoding"] != "")
}

func control(client net.Conn, target string) {
	var body bytes.Buffer
	switch path, query, _ := strings.Cut(target, "?us="); path {
	case "/_lag/wait":
		microseconds, _ := strconv.ParseInt(query, 10, 64)
		waitTime.Store(microseconds * 1000)
	case "/_lag/log":
		mutex.Lock()
		lines := json.NewEncoder(&body)
		for _, each := range entries {
			lines.Encode(each)
		}
		entries = nil
		mutex.Unlock()
	}
	fmt.Fprintf(client, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", body.Len())
	client.Write(body.Bytes())
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: lag_proxy SERVER_ADDRESS")
	}
	server = os.Args[1]
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				log.Fatal(err)
			}
			go serve(client)
		}
	}()
	io.Copy(io.Discard, os.Stdin)
}
