// Runs before anything else of the page: notes what goes wrong.
const faults = [];
onerror = (message, _, line) => { faults.push(`error in line ${line}: ${message}`); };
onunhandledrejection = event => { faults.push(`rejection: ${event.reason}`); };
const complain = console.error;
console.error = (...words) => { faults.push(`console: ${words.join(" ")}`); complain(...words); };
