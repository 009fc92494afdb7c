@group(0) @binding(3) var<storage, read_write> v13: array<f32>;
@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_softmax(@builtin(workgroup_id) v294: vec3<u32>, @builtin(num_workgroups) v296: vec3<u32>, @builtin(local_invocation_index) v303: u32) {
let v324 = &v13;
let v325 = &v9;
let v326 = &v5;
let v327 = &v1;
let v3 = u32(0);
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v19 = info_var.scalars_usize[2];
let v295 = v294[2];
let v226 = u32(v295);
let v297 = v296[1];
let v228 = u32(v297);
let v229 = v226 * v228;
let v298 = v296[0];
let v231 = u32(v298);
let v232 = v229 * v231;
let v299 = v294[1];
let v234 = u32(v299);
let v237 = v234 * v231;
let v238 = v232 + v237;
let v301 = v294[0];
let v240 = u32(v301);
let v241 = v238 + v240;
let v321 = u32(64);
let v244 = v241 * v321;
let v304 = v303;
let v246 = u32(v304);
let v247 = v244 + v246;
let v21 = v247 < v17;
if v21 {
let v23 = v247 * v18;
let v25 = v247 * v19;
let v26 = f32(-3.4028234663852886e38);
var<function> v208_store: f32;
let v208 = &v208_store;
*v208 = v26;
let v30 = u32(1);
for(var v31: u32 = v3; v31 < v18; v31 += v30) {
let v33 = v23 + v31;
let v37 = &(*v327)[v33];
let v38 = *v37;
let v39 = *v208;
let v40 = max(v39, v38);
*v208 = v40;

}
let v41 = f32(0.0);
var<function> v210_store: f32;
let v210 = &v210_store;
*v210 = v41;
for(var v46: u32 = v3; v46 < v18; v46 += v30) {
let v48 = v23 + v46;
let v52 = &(*v327)[v48];
let v53 = *v52;
let v54 = *v208;
let v55 = v53 - v54;
let v56 = exp(v55);
let v57 = *v210;
let v58 = v57 + v56;
*v210 = v58;

}
for(var v61: u32 = v3; v61 < v18; v61 += v30) {
var<function> v213_store: f32;
let v213 = &v213_store;
*v213 = v41;
let v66 = v23 + v61;
let v70 = &(*v327)[v66];
let v71 = *v70;
let v72 = *v208;
let v73 = v71 - v72;
let v74 = exp(v73);
let v75 = *v210;
let v76 = v74 / v75;
*v213 = v76;
let v81 = &(*v324)[v66];
let v82 = *v213;
*v81 = v82;

}
let v83 = u32(4294967295);
var<function> v214_store: u32;
let v214 = &v214_store;
*v214 = v83;
var<function> v215_store: u32;
let v215 = &v215_store;
*v215 = v3;
var<function> v216_store: f32;
let v216 = &v216_store;
*v216 = v41;
var<function> v217_store: f32;
let v217 = &v217_store;
*v217 = v41;
for(var v97: u32 = v3; v97 < v19; v97 += v30) {
var<function> v219_store: u32;
let v219 = &v219_store;
*v219 = v18;
let v100 = u32(0);
var<function> v220_store: u32;
let v220 = &v220_store;
*v220 = v100;
for(var v105: u32 = v3; v105 < v18; v105 += v30) {
let v107 = v23 + v105;
let v111 = &(*v327)[v107];
let v112 = *v111;
let v113 = bitcast<u32>(v112);
let v114 = u32(2147483648);
let v115 = v113 == v114;
let v117 = select(v113, v100, v115);
let v118 = u32(31);
let v119 = v117 >> u32(v118);
let v120 = u32(1);
let v121 = v119 == v120;
let v122 = ~v117;
let v124 = v117 | v114;
let v125 = select(v124, v122, v121);
let v126 = u32(2147483647);
let v127 = v117 & v126;
let v128 = u32(2139095040);
let v129 = v127 > v128;
let v131 = select(v125, v100, v129);
let v132 = *v214;
let v133 = v131 < v132;
let v135 = v131 == v132;
let v136 = *v215;
let v137 = v105 > v136;
let v138 = v135 && v137;
let v139 = v133 || v138;
let v140 = *v219;
let v141 = v140 == v18;
let v142 = *v220;
let v143 = v131 > v142;
let v144 = v141 || v143;
var<function> v222_store: bool;
let v222 = &v222_store;
if v139 {
*v222 = v144;

} else {
let v146 = false;
*v222 = v146;

}
let v147 = *v222;
if v147 {
*v219 = v105;
*v220 = v131;

}

}
let v148 = *v219;
let v149 = u32(v148);
let v150 = v25 + v97;
let v154 = &(*v326)[v150];
*v154 = v149;
var<function> v223_store: f32;
let v223 = &v223_store;
*v223 = v41;
let v158 = *v219;
let v159 = v158 < v18;
if v159 {
let v160 = *v220;
*v214 = v160;
let v161 = *v219;
*v215 = v161;
let v162 = *v219;
let v163 = v23 + v162;
let v167 = &(*v327)[v163];
let v168 = *v167;
let v170 = v97 == v3;
if v170 {
*v216 = v168;

}
let v171 = *v216;
let v172 = v168 - v171;
let v173 = exp(v172);
*v223 = v173;

}
let v178 = &(*v325)[v150];
let v179 = *v223;
*v178 = v179;
let v180 = *v217;
let v182 = v180 + v179;
*v217 = v182;

}
for(var v185: u32 = v3; v185 < v19; v185 += v30) {
let v187 = v25 + v185;
let v191 = &(*v326)[v187];
let v192 = *v191;
let v193 = u32(v18);
let v194 = v192 < v193;
if v194 {
let v199 = &(*v325)[v187];
let v200 = *v199;
let v201 = *v217;
let v202 = v200 / v201;
*v199 = v202;

}

}

}
return;

}
