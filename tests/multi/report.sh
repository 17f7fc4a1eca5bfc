#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2317 # functions are called through check
# not under sanitizers: the program is Python
# stretto-report: one page that needs nothing else, with all its parts; a file that is not what it should be is named.
set -u
build=${1:?usage: report.sh BUILD}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

check() { # check NAME CONDITION...: the condition is a command
	name=$1
	shift
	if "$@" >"$dir/log" 2>&1; then
		echo "ok $name"
	else
		failed=1
		echo "not ok $name"
		tail -n 20 "$dir/log" "$dir/err" | sed 's/^/    /'
	fi
}

report() { # report ARGUMENT...: status and stderr are kept
	(cd "$dir" && timeout 60 "$tool" "$@") >"$dir/out" 2>"$dir/err"
	status=$?
}
says() { # says STATUS TEXT: the last run ended so, with one line that is the text
	[ "$status" = "$1" ] && [ "$(cat "$dir/err")" = "stretto-report: $2" ]
}
tool=$(realpath "$build")/stretto-report

start='{"event":"start","format":1,"version":"0.1.0","started":1,"strategy":"dasgd","ranks":2,"model":"a<b>&c","data":"d","batch":4,"steps":20}'
step() { # step NUMBER LOSS HIDDEN
	echo "{\"event\":\"step\",\"time\":$1,\"step\":$1,\"epoch\":1,\"samples\":$(($1 * 8)),\"loss\":$2,\"lr\":0.1,\"step_ms\":2,\"compute_ms\":1.5,\"exposed_ms\":0.5,\"in_flight_ms\":1,\"hidden_percent\":$3,\"samples_per_s\":800.0}"
}
finish='{"event":"end","time":20.5,"step":20,"epoch":1,"samples":160,"why":"done","samples_per_s":800,"step_ms":4,"compute_ms":3,"exposed_ms":1,"hidden_percent":75,"slowest_rank":1,"slowest_host":"h<1>","slower_percent":12.5}'
{
	echo "$start"
	step 10 2.5 null
	step 20 null 50
	echo '{"event":"probe","time":20.5,"step":20,"epoch":1,"samples":160,"gradient_norm":0.5,"train_loss":null}'
	echo '{"event":"test","time":20.5,"step":20,"epoch":1,"samples":160,"test_accuracy":0.875}'
	echo "$finish"
} >"$dir/a.jsonl"
{
	echo "$start"
	step 10 1.5 100
	step 20 0.5 100
	printf '{"event":"st'
} >"$dir/b.jsonl"
span() { # span RANK NAME STEP FROM LENGTH
	echo ",{\"name\":\"$2\",\"cat\":\"step\",\"ph\":\"X\",\"pid\":$1,\"tid\":0,\"ts\":$4,\"dur\":$5,\"args\":{\"step\":$3}}"
}
{
	echo '{"displayTimeUnit":"ms","otherData":{"ranks":2,"first_step":1,"last_step":6,"clock_error_us":0},"traceEvents":['
	echo '{"name":"process_name","ph":"M","pid":0,"tid":0,"args":{"name":"rank 0"}}'
	for number in 1 2 3 4 5 6; do
		span 0 forward $number ${number}000 400
		span 1 update $number ${number}500 300
	done
	span 1 wait 6 6550 100
	echo ',{"name":"average","cat":"flight","ph":"b","id":1,"pid":1,"tid":1,"ts":4000,"args":{"slice":3,"end":"waited"}}'
	echo ',{"name":"average","cat":"flight","ph":"e","id":1,"pid":1,"tid":1,"ts":6650}]}'
} >"$dir/t.json"

# Tags that close, and what the page must hold.
page() { # page FILE: prints figures, curves and bars as "TITLE: CURVES DOTS BARS", then the cells
	python3 - "$dir/$1" <<-'END'
		import html.parser, sys
		class Page(html.parser.HTMLParser):
		    void = {"meta", "line", "rect", "circle", "polyline", "i"}
		    def __init__(self):
		        super().__init__()
		        self.open, self.figures, self.cells, self.last = [], [], [], None
		    def handle_starttag(self, tag, attributes):
		        assert tag not in ("script", "link", "img", "iframe"), tag
		        assert not {"src", "href"} & {name for name, _ in attributes}, attributes
		        if tag != "meta":
		            self.open.append(tag)
		        if tag == "figure":
		            self.figures.append(["", 0, 0, 0])
		        for place, name in enumerate(("polyline", "circle", "rect"), 1):
		            if tag == name:
		                self.figures[-1][place] += 1
		        if tag == "td":
		            self.cells.append("")
		    def handle_startendtag(self, tag, attributes):
		        self.handle_starttag(tag, attributes)
		        self.open.pop()
		    def handle_endtag(self, tag):
		        assert self.open and self.open[-1] == tag, (tag, self.open)
		        self.open.pop()
		    def handle_data(self, data):
		        if self.open and self.open[-1] == "figcaption":
		            self.figures[-1][0] += data
		        if self.open and self.open[-1] == "td":
		            self.cells[-1] += data
		source = open(sys.argv[1], encoding="utf-8").read()
		page = Page()
		page.feed(source)
		page.close()
		assert not page.open, page.open
		for words in ("://", "@import", "url("):
		    assert words not in source, words
		for words in ("prefers-color-scheme:dark", "@media print", 'name="viewport"', "<!DOCTYPE html>"):
		    assert words in source, words
		for figure in page.figures:
		    print("{}: {} {} {}".format(*figure))
		print("|".join(page.cells))
	END
}

report a.jsonl b.jsonl --trace t.json
check "two runs and a trace: a page, and nothing said" [ "$status.$(cat "$dir/out" "$dir/err")" = 0. ]
page report.html >"$dir/found" 2>"$dir/err"
cat >"$dir/expected" <<'END'
Loss against samples: 1 1 0
Loss against time: 1 1 0
Test accuracy against samples: 0 1 0
Test accuracy against time: 0 1 0
Hidden share of communication: 1 1 0
Throughput: 2 0 0
Where a step's time goes: 0 0 4
Steps 3 to 6, milliseconds: 0 0 10
done|log cut off|20|20|–|0.5|87.5|–|20.5|–|800|–|4|–|3|–|1|–|75|–|rank 1 on h<1>, 12.5 % over the median|–|0.1.0|0.1.0|dasgd|dasgd|2|2|a<b>&c|a<b>&c|d|d|4|4|20|20
END
check "its tags, pictures and tables" diff "$dir/expected" "$dir/found"

# As a browser lays it out: the pages of its print, and what a copy of the page that looks at itself says.
browser() { # browser OPTION...: its stdout
	timeout -k 5 60 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$dir/profile" \
		"$@" 2>/dev/null # it tells of all that the machine lacks
}
printed_pages() { # printed_pages MOST
	browser --no-pdf-header-footer --print-to-pdf="$dir/report.pdf" "file://$dir/report.html" >"$dir/found"
	printed=$(grep -ac "/Type /Page$" "$dir/report.pdf")
	echo "$printed pages"
	[ "$printed" -ge 1 ] && [ "$printed" -le "$1" ]
}
shows() { # shows TEXT OPTION...: what the copy says
	text=$1
	shift
	browser "$@" --dump-dom "file://$dir/self.html" | sed -n '0,/<title>/s|.*<title>\(.*\)</title>.*|\1|p' >"$dir/found"
	cat "$dir/found"
	[ "$(cat "$dir/found")" = "$text" ]
}
cat - "$dir/report.html" >"$dir/self.html" <<'END'
<!DOCTYPE html><script>addEventListener("load", () => {
	const page = document.documentElement, paper = getComputedStyle(document.body).backgroundColor.match(/\d+/g);
	const hidden = [...document.querySelectorAll("h2,figure,table,svg")].filter(e => !e.getBoundingClientRect().width).length;
	document.title = [page.scrollWidth > innerWidth ? "too wide" : "fits", paper[0] < 128 ? "dark" : "light", hidden].join(" ");
});</script>
END
if command -v chromium >/dev/null; then
	check "printed on few pages" printed_pages 4 # 3 here; a page for each curve would be 8
	check "in a browser" shows "fits light 0" --window-size=1280,900
	check "dark" shows "fits dark 0" --window-size=1280,900 --blink-settings=preferredColorScheme=0
	check "on a phone" shows "fits light 0" --window-size=390,844
else
	echo "skip in a browser: no chromium (make deps installs it)"
fi

report a.jsonl -o one.html
check "one run without a trace: no timeline" [ "$status.$(page one.html | grep -c :)" = 0.7 ]

bad() { # bad NAME PROBLEM: the log that is on stdin is refused with it
	cat >"$dir/bad.jsonl"
	rm -f "$dir/report.html"
	report a.jsonl bad.jsonl
	check "$1" says 1 "bad.jsonl$2"
	check "$1: no page" [ ! -e "$dir/report.html" ]
}
: | bad "an empty file" ":1: expected a line of a log of stretto-train"
printf '%s\n{"event":\n' "$start" | bad "a broken line" ":2: not JSON: Expecting value: line 1 column 10 (char 9)"
{
	echo "$start"
	step 10 1 1
	step 20 '"x"' 1
} | bad "a text where a number belongs" ':3: a step line needs a number "loss"'
{
	echo "$start"
	step 10 1 1
	step 20 NaN 1
} | bad "not a number" ':3: a step line needs a number "loss"'
step 10 1 1 | bad "no start" ":1: a log begins with its start line"
printf '%s\n%s\n' "$start" "$start" | bad "two starts" ":2: a second start line"
echo "$start" | sed 's/"format":1/"format":2/' | bad "another format" ":1: format 2, but this program reads 1"
printf '[1]\n' | bad "another file" ':1: expected an object with "event": start, step, test, probe or end'
printf '\377\n' | bad "no text" ": at byte 0: not UTF-8"
report none.jsonl
check "a missing file" says 1 "none.jsonl: No such file or directory"
report a.jsonl -o none/report.html
check "a folder that is not there" says 1 "none/report.html: No such file or directory"
head -n 3 "$dir/t.json" >"$dir/cut.json"
report a.jsonl --trace cut.json
check "a trace that was cut off: its line" says 1 "cut.json:4: not JSON: Expecting ',' delimiter"
sed 's/"dur":400/"dur":"x"/' "$dir/t.json" >"$dir/odd.json"
report a.jsonl --trace odd.json
check "a trace with another event" says 1 "odd.json: event 2 is not one of stretto-train's"
report
check "no run: status 2" [ "$status" = 2 ]
exit $failed
