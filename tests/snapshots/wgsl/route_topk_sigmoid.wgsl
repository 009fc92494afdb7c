@group(0) @binding(3) var<storage, read_write> v13: array<f32>;
@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_sigmoid(@builtin(workgroup_id) v308: vec3<u32>, @builtin(num_workgroups) v310: vec3<u32>, @builtin(local_invocation_index) v317: u32) {
let v338 = &v13;
let v339 = &v9;
let v340 = &v5;
let v341 = &v1;
let v3 = u32(0);
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v19 = info_var.scalars_usize[2];
let v309 = v308[2];
let v240 = u32(v309);
let v311 = v310[1];
let v242 = u32(v311);
let v243 = v240 * v242;
let v312 = v310[0];
let v245 = u32(v312);
let v246 = v243 * v245;
let v313 = v308[1];
let v248 = u32(v313);
let v251 = v248 * v245;
let v252 = v246 + v251;
let v315 = v308[0];
let v254 = u32(v315);
let v255 = v252 + v254;
let v335 = u32(64);
let v258 = v255 * v335;
let v318 = v317;
let v260 = u32(v318);
let v261 = v258 + v260;
let v21 = v261 < v17;
if v21 {
let v23 = v261 * v18;
let v25 = v261 * v19;
let v26 = f32(-3.4028234663852886e38);
var<function> v222_store: f32;
let v222 = &v222_store;
*v222 = v26;
let v30 = u32(1);
for(var v31: u32 = v3; v31 < v18; v31 += v30) {
let v33 = v23 + v31;
let v37 = &(*v341)[v33];
let v38 = *v37;
let v39 = *v222;
let v40 = max(v39, v38);
*v222 = v40;

}
let v41 = f32(0.0);
var<function> v224_store: f32;
let v224 = &v224_store;
*v224 = v41;
for(var v46: u32 = v3; v46 < v18; v46 += v30) {
let v48 = v23 + v46;
let v52 = &(*v341)[v48];
let v53 = *v52;
let v54 = *v222;
let v55 = v53 - v54;
let v56 = exp(v55);
let v57 = *v224;
let v58 = v57 + v56;
*v224 = v58;

}
for(var v61: u32 = v3; v61 < v18; v61 += v30) {
var<function> v227_store: f32;
let v227 = &v227_store;
*v227 = v41;
let v66 = v23 + v61;
let v70 = &(*v341)[v66];
let v71 = *v70;
let v72 = abs(v71);
let v73 = -v72;
let v74 = exp(v73);
let v76 = v71 < v41;
let v77 = f32(1.0);
let v78 = select(v77, v74, v76);
let v80 = v77 + v74;
let v81 = v78 / v80;
*v227 = v81;
let v86 = &(*v338)[v66];
let v87 = *v227;
*v86 = v87;

}
let v88 = u32(4294967295);
var<function> v228_store: u32;
let v228 = &v228_store;
*v228 = v88;
var<function> v229_store: u32;
let v229 = &v229_store;
*v229 = v3;
var<function> v230_store: f32;
let v230 = &v230_store;
*v230 = v41;
var<function> v231_store: f32;
let v231 = &v231_store;
*v231 = v41;
for(var v102: u32 = v3; v102 < v19; v102 += v30) {
var<function> v233_store: u32;
let v233 = &v233_store;
*v233 = v18;
let v105 = u32(0);
var<function> v234_store: u32;
let v234 = &v234_store;
*v234 = v105;
for(var v110: u32 = v3; v110 < v18; v110 += v30) {
let v112 = v23 + v110;
let v116 = &(*v341)[v112];
let v117 = *v116;
let v118 = bitcast<u32>(v117);
let v119 = u32(2147483648);
let v120 = v118 == v119;
let v122 = select(v118, v105, v120);
let v123 = u32(31);
let v124 = v122 >> u32(v123);
let v125 = u32(1);
let v126 = v124 == v125;
let v127 = ~v122;
let v129 = v122 | v119;
let v130 = select(v129, v127, v126);
let v131 = u32(2147483647);
let v132 = v122 & v131;
let v133 = u32(2139095040);
let v134 = v132 > v133;
let v136 = select(v130, v105, v134);
let v137 = *v228;
let v138 = v136 < v137;
let v140 = v136 == v137;
let v141 = *v229;
let v142 = v110 > v141;
let v143 = v140 && v142;
let v144 = v138 || v143;
let v145 = *v233;
let v146 = v145 == v18;
let v147 = *v234;
let v148 = v136 > v147;
let v149 = v146 || v148;
var<function> v236_store: bool;
let v236 = &v236_store;
if v144 {
*v236 = v149;

} else {
let v151 = false;
*v236 = v151;

}
let v152 = *v236;
if v152 {
*v233 = v110;
*v234 = v136;

}

}
let v153 = *v233;
let v154 = u32(v153);
let v155 = v25 + v102;
let v159 = &(*v340)[v155];
*v159 = v154;
var<function> v237_store: f32;
let v237 = &v237_store;
*v237 = v41;
let v163 = *v233;
let v164 = v163 < v18;
if v164 {
let v165 = *v234;
*v228 = v165;
let v166 = *v233;
*v229 = v166;
let v167 = *v233;
let v168 = v23 + v167;
let v172 = &(*v341)[v168];
let v173 = *v172;
let v175 = min(v173, v41);
let v176 = abs(v173);
let v177 = -v176;
let v178 = exp(v177);
let v179 = f32(1.0);
let v180 = v179 + v178;
let v181 = log(v180);
let v182 = v175 - v181;
let v184 = v102 == v3;
if v184 {
*v230 = v182;

}
let v185 = *v230;
let v186 = v182 - v185;
let v187 = exp(v186);
*v237 = v187;

}
let v192 = &(*v339)[v155];
let v193 = *v237;
*v192 = v193;
let v194 = *v231;
let v196 = v194 + v193;
*v231 = v196;

}
for(var v199: u32 = v3; v199 < v19; v199 += v30) {
let v201 = v25 + v199;
let v205 = &(*v340)[v201];
let v206 = *v205;
let v207 = u32(v18);
let v208 = v206 < v207;
if v208 {
let v213 = &(*v339)[v201];
let v214 = *v213;
let v215 = *v231;
let v216 = v214 / v215;
*v213 = v216;

}

}

}
return;

}
